"""Values as text for people: times, spans, positions, and holders of time; and times and positions back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from strandline.core.note import check_position
from strandline.core.time_units import is_epoch, milliseconds
from strandline.errors import StrandlineError
from strandline.limits import TIME_BOUND_MS

if TYPE_CHECKING:
    from strandline.core.aggregate import Holder
    from strandline.wire.controllers import ControllerReply
    from strandline.wire.status import StreamStatus
    from strandline.wire.streams import HolderReply

POSITION_SEGMENTS_SHOWN: Final = 8  # of a position on one line; the others are counted

DURATION_CHARACTERS: Final = 60  # of one that is entered

NOTHING = "–"
ZONE: Final[ContextVar[tzinfo]] = ContextVar("zone", default=UTC)  # of the times that are shown: pages have a choice


@dataclass(frozen=True, slots=True)
class Times:
    """How times are shown: as dates if they look like epoch milliseconds, or all as `plain` numbers."""

    plain: bool = False

    def show(self, time: int | None) -> str:
        if time is None:
            return NOTHING
        if self.plain or not is_epoch(time):
            return str(time)
        zone = ZONE.get()
        shown = datetime.fromtimestamp(time // 1000, zone) + timedelta(milliseconds=time % 1000)
        text = shown.isoformat(" ", "milliseconds")
        return text.removesuffix("+00:00") + "Z" if zone is UTC else text


def moment(at: int, now: int) -> str:
    """When something happened: the time of day, with the date if it was not today."""
    text, today = Times().show(at), Times().show(now)[:10]
    return text[11:19] if text[:10] == today else text[:19]


def span(milliseconds: int) -> str:
    """A duration in suitable units."""
    sign, seconds = ("-", -milliseconds / 1000) if milliseconds < 0 else ("", milliseconds / 1000)
    if seconds < 9.95:
        return f"{sign}{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{sign}{whole} s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 120:
        return f"{sign}{minutes} min {whole % 60} s"
    return f"{sign}{hours} h {minutes % 60} min" if hours < 48 else f"{sign}{hours // 24} d {hours % 24} h"


def behind(lag_ms: int) -> str:
    """A lag, or how far a time is ahead of the clock."""
    return f"{span(-lag_ms)} ahead" if lag_ms < 0 else span(lag_ms)


def lag(time: int | None, now: int | None) -> str:
    """How far a time is behind the clock, if both are epoch milliseconds."""
    return behind(now - time) if time is not None and now is not None and is_epoch(time) else NOTHING


def offsets(position: Mapping[str, int]) -> str:
    """A position in the form that `window --position` takes, its segments in order; shortened if there are many."""
    ordered = sorted(position.items(), key=lambda item: (len(item[0]) if item[0].isdecimal() else math.inf, item[0]))
    shown = [f"{segment}={offset}" for segment, offset in ordered[:POSITION_SEGMENTS_SHOWN]]
    more = len(position) - len(shown)
    return ",".join(shown) + (f" and {more} more" if more else "") if shown else NOTHING


def read_offsets(text: str) -> dict[str, int]:
    """A position: `0=5,1=7`, or a JSON object of the same; empty for an empty text. Raises ValueError with a sentence
    for whoever wrote it."""
    try:
        pairs = _pairs_of_json(text) if text.lstrip().startswith("{") else _pairs_of_text(text)
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("it names a segment twice")
        check_position(found)
    except (ValueError, RecursionError, StrandlineError) as error:
        wanted = 'an offset for each segment, as 0=5,1=7 or {"0": 5, "1": 7}'
        raise ValueError(f"{text[:200]!r} is no position ({error}): give {wanted}") from None
    return found


def _pairs_of_json(text: str) -> Sequence[tuple[str, Any]]:
    return json.loads(text, object_pairs_hook=lambda pairs: pairs)  # type: ignore[no-any-return]  # checked by the caller


def _pairs_of_text(text: str) -> Sequence[tuple[str, int]]:
    pairs = []
    for each in text.split(",") if text.strip() else ():
        segment, equals, offset = each.strip().partition("=")
        if not equals or not offset.isascii() or not offset.isdecimal() or len(offset) > 20:
            raise ValueError(f"{each.strip()!r} is no segment=offset")
        pairs.append((segment, int(offset)))
    return pairs


def read_time(text: str, *, up: bool = False) -> int:
    """A time: a whole number, as notes have it, or a date, which is in UTC where it names no other zone; one between
    two milliseconds is the earlier one or, with `up`, the later one. Raises ValueError with a sentence for whoever
    wrote it."""
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdecimal() and len(digits) < 20:
        number = int(text)
    else:
        try:
            given = datetime.fromisoformat(text)
        except ValueError:
            wanted = "a whole number of milliseconds, or a date such as 2026-01-31T12:00:00Z"
            raise ValueError(f"{text[:200]!r} is no time: give {wanted}") from None
        aware = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
        number = milliseconds("time", aware, up=up)
    if not -TIME_BOUND_MS < number < TIME_BOUND_MS:
        raise ValueError(f"{text[:200]!r} is no time: it has to lie within ±{TIME_BOUND_MS - 1}")
    return number


UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000, "ms": 1}
_UNIT_NAMES: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d{1,3})?)\s*([a-z]+)\s*", re.ASCII)


def duration_text(milliseconds: int | None) -> str:
    """A duration in its largest units, without rounding, as it is entered; empty for None."""
    if milliseconds is None:
        return ""
    parts, rest = [], milliseconds
    for unit, size in UNITS_MS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"


def read_duration(text: str, *, unit: str = "") -> int:
    """The milliseconds of a duration such as `15min`, `1 h 30 min` or `1.5 h`; of a number alone in `unit`, if there
    is one. Raises ValueError with a sentence for whoever wrote it."""
    given = text.strip().lower()
    shown = repr(text[:80])
    if re.fullmatch(r"\d+(\.\d+)?", given, re.ASCII):
        if not unit and given != "0":
            raise ValueError(f"{shown} of which unit? Write 15 min, 30 s or 500 ms")
        given += unit or "s"
    parts = _DURATION_PART.findall(given)
    rest = _DURATION_PART.sub("", given)
    if rest or not parts or len(given) > DURATION_CHARACTERS or any(name not in _UNIT_NAMES for _, name in parts):
        raise ValueError(f"{shown} is no duration: write 15 min, 1 h 30 min, 30 s or 500 ms")
    total = sum(Decimal(number) * UNITS_MS[_UNIT_NAMES[name]] for number, name in parts)
    if total != int(total):
        raise ValueError(f"{shown} is not a whole number of milliseconds")
    return int(total)


def key_name(key: str) -> str:
    return key or '""'


def counts(states: Mapping[str, int]) -> str:
    """Writers by state."""
    return ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(states.items()) if count) or "none"


def controller_state(controller: ControllerReply, now: int) -> str:
    """The state of a controller, and for how long it is not there."""
    unseen = span(now - controller.seen_at)
    return {"away": f"away for {unseen}", "ended": f"ended {unseen} ago"}.get(controller.state, "serving")


def how_many_serve(controllers: Mapping[str, int]) -> str:
    """How many controllers serve, of those that should; from their number by state. Empty where there is one only."""
    serving, away = controllers.get("serving", 0), controllers.get("away", 0)
    return f"{serving} of {serving + away}" if serving + away > 1 else ""


def refused(status: StreamStatus) -> str:
    """How many calls were refused, and how long ago the last one was; empty without any."""
    at = status.refused_at
    ago = "" if at is None else f", last {span(max(0, status.seen_at - at))} ago"
    return f"{sum(status.refusals.values()):,}{ago}" if status.refusals else ""


def holding(holder: Holder | HolderReply | None) -> str:
    """Which writer holds time back, how long it has been silent, and when it times out."""
    if holder is None:
        return "nobody"
    if holder.writer is None:
        return "too few writers have noted (min_writers)"
    state = "" if holder.state == "active" else f" ({holder.state})"
    parts = [f"{holder.writer}{state} holds" + (" and has no time yet" if holder.time is None else "")]
    if holder.last_heard_ms_ago is not None:
        parts.append(f"{span(holder.last_heard_ms_ago)} silent")
    parts.append(timeout_text(holder.released_in_ms))
    return ", ".join(parts)


def held_since(holder: HolderReply, since: int | None, now: int) -> str:
    """Since when a writer holds time back, how long it has been silent, and when it times out."""
    if holder.writer is None:
        return "fewer than min_writers writers have noted"
    parts = [] if holder.state == "active" else [holder.state.replace("_", " ")]
    if since is not None:
        parts.append(f"since {moment(since, now)}, for {span(now - since)}")
    if holder.last_heard_ms_ago is not None:
        parts.append(f"silent for {span(holder.last_heard_ms_ago)}")
    return ", ".join([*parts, timeout_text(holder.released_in_ms)])


def timeout_text(released_in_ms: int | None) -> str:
    """When a silent writer times out."""
    if released_in_ms is None:
        return "never times out"
    return f"times out in {span(released_in_ms)}" if released_in_ms else "times out now"


def named(names: Sequence[str], most: int, count: int | None = None, *, least: bool = False) -> str:
    """The first `most` names, and the number of the others; there may be more than are given, `count` of them, or any
    number if that is the `least`."""
    others = (len(names) if count is None else count) - most
    return ", ".join(names[:most]) + (f" and {'at least ' if least else ''}{others} more" if others > 0 else "")


def yes(flag: bool) -> str:
    return "yes" if flag else "no"


def indented(value: Any) -> str:
    """JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def compact(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
