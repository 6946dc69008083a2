"""From when to when time would go if a writer were excluded, closed or included, for whoever is about to do so.

Time never goes back, so what goes further than five minutes is not done unasked. This is so for dates, which are noted:
in the ingestion domain the clock bounds how far time can go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from controller.operators.wording import Times, span
from strandline.core.config import TimeDomain
from strandline.core.time_units import is_epoch
from strandline.wire.status import AHEAD_NAMED_MS
from strandline.wire.streams import TimesWithout


class Leap(NamedTuple):
    """The sentences about it, none where time stays; whether it is long, and whether it ends far ahead of the clock."""

    text: str
    is_long: bool
    is_ahead: bool


def leap(found: TimesWithout, reached: Mapping[str, int | None], times: Times | None = None) -> Leap:
    """What would come of what lets time have `reached` that, by key: one of those in `found`."""
    sentences, is_long, is_ahead, show = [], False, False, (times or Times()).show
    for key, after in reached.items():
        before = found.present[key]
        if after is None or after == before or not is_epoch(after) or found.time_domain is not TimeDomain.EVENT:
            continue
        begins = "begins at" if before is None else f"goes from {show(before)} to"
        further = "" if before is None else f", {span(after - before)} further"
        ahead = after - found.at
        beyond = f": {span(ahead)} ahead of the clock" if ahead > AHEAD_NAMED_MS else ""
        sentences.append(f"Time{f' in key {key}' if key else ''} {begins} {show(after)}{further}{beyond}.")
        is_ahead |= ahead > AHEAD_NAMED_MS
        is_long |= (ahead if before is None else after - before) > AHEAD_NAMED_MS
    return Leap(" ".join(sentences), is_long, is_ahead)
