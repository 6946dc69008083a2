"""`strandline journal`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import click

from controller.cli.client import REFRESH_MS, ControllerClient, calls_controller
from controller.cli.options import after_option, group_option, limit_option, name_of, one_of, option
from controller.cli.screen import GAP, Output, cell, listing, prints
from controller.operators.journal_text import Folded, folded, story
from controller.operators.wording import Times
from strandline.client.calls import Call, describe, journal
from strandline.client.group_calls import describe_group, group_journal
from strandline.limits import PAGE_ENTRIES
from strandline.wire.journal import TOPICS, JournalEntry, JournalPage
from strandline.wire.shapes import convert

Entries: TypeAlias = list[dict[str, Any]]


@click.command
@click.argument("stream", required=False, type=name_of("stream"), help="the stream")
@group_option
@option("--topic", type=click.Choice(TOPICS), metavar="TOPIC", help=f"only entries on {', '.join(TOPICS)}")
@after_option("entry")
@limit_option("so many, before those that are followed")
@option("--follow", is_flag=True, help="go on with each new entry until Ctrl-C; with --json one a line")
@calls_controller
@prints
def command(
    client: ControllerClient,
    stream: str | None,
    group: str | None,
    topic: str | None,
    after: int | None,
    limit: int,
    follow: bool,
    output: Output,
) -> None:
    """Show what happened to a stream or a reader group.

    The journal has refusals, changes of state, who held time back, and what administrators did.
    """
    one_of(stream, group)
    pages = partial(group_journal, group) if group is not None else partial(journal, stream or "")

    def whose() -> object:
        """What an earlier stream or group of the name did not have."""
        if group is not None:
            return client.run(describe_group(group)).created_at
        return client.run(describe(stream or "")).identity

    present = whose() if follow else None
    found, omitted = _entries(client, pages, after or 0)
    wanted = [each for each in found if topic in (None, each["topic"])]
    shown = wanted[-limit:] if after is None else wanted[:limit]
    if not follow:
        none = "there is no such entry" if topic or after is not None else "nothing was recorded yet"
        page = {"entries": shown, "next": None, "omitted": omitted}
        output.show(page, lambda: _lines(shown, omitted, none, output.times))
        return
    is_all = after is None or len(wanted) <= limit
    seen = (found if is_all else shown)[-1]["seq"] if found else after or 0

    def new() -> Entries:
        nonlocal seen, present
        found, _ = _entries(client, pages, seen)
        while (now := whose()) != present:  # it was created again, and its journal begins anew
            seen, present = 0, now
            found, _ = _entries(client, pages, seen)
        seen = found[-1]["seq"] if found else seen
        return [each for each in found if topic in (None, each["topic"])]

    while True:
        for each in shown:
            output.show_line(each, partial(_line, each, output.times))
        time.sleep(REFRESH_MS / 1000)
        shown = client.until_answered(new)


def _lines(entries: Entries, omitted: dict[str, int], none: str, times: Times) -> list[str]:
    """The table, with refusals of one kind as one, where the newest of them is."""
    folds = folded(convert(each, JournalEntry) for each in reversed(entries))[::-1]
    too_fast = ", ".join(f"{count} {name}" for name, count in sorted(omitted.items()))
    return [
        *listing(("seq", "at", "topic", "by", "what"), [_row(each, times) for each in folds], none=none),
        *(["", f"too fast to be listed, at this controller: {too_fast}"] if omitted else []),
    ]


def _line(entry: dict[str, Any], times: Times) -> str:
    (fold,) = folded([convert(entry, JournalEntry)])
    return GAP.join(map(cell, _row(fold, times)))


def _row(fold: Folded, times: Times) -> tuple[object, ...]:
    entry = fold.entry
    return entry.seq, times.show(entry.at), entry.topic, entry.by, story(fold, times, times.show)


def _entries(
    client: ControllerClient, pages: Callable[..., Call[JournalPage]], after: int
) -> tuple[Entries, dict[str, int]]:
    """All entries after a seq, of which there are never very many, and what came too fast to be recorded."""
    found: Entries = []
    on: int | None = after
    omitted: dict[str, int] = {}
    while on is not None:
        page = client.ask(pages(after=on, limit=PAGE_ENTRIES))
        found += page.json["entries"]
        omitted, on = dict(page.value.omitted), page.value.next
    return found, omitted
