"""`strandline journal`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import click

from controller.cli.client import REFRESH_MS, ControllerClient, calls_controller
from controller.cli.options import after_option, group_option, limit_option, name_of, one_of, option
from controller.cli.screen import GAP, Output, cell, listing, prints
from controller.operators.journal_text import folded, story
from controller.operators.wording import Times
from strandline.client.calls import describe, journal, journals
from strandline.client.group_calls import describe_group, group_journal
from strandline.limits import PAGE_ENTRIES
from strandline.wire.journal import TOPICS, JournalEntry
from strandline.wire.shapes import convert

ENTRIES_LATE_MS: Final = 5_000  # by which an entry of another controller may come after ones of later moments

Entries: TypeAlias = list[dict[str, Any]]
Page: TypeAlias = dict[str, Any]


@click.command
@click.argument("stream", required=False, type=name_of("stream"), help="the stream")
@group_option
@option("--all", "of_all", is_flag=True, help="of all streams, in place of one")
@option("--search", metavar="WORDS", help="with --all: only entries with these words, in any order")
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
    of_all: bool,
    search: str | None,
    topic: str | None,
    after: int | None,
    limit: int,
    follow: bool,
    output: Output,
) -> None:
    """Show what happened to a stream, a reader group, or all streams.

    The journal has refusals, changes of state, who held time back, and what administrators did.
    """
    if of_all:
        if stream is not None or group is not None or after is not None:
            raise click.UsageError("--all is in place of a stream or a reader group, and has no --after.")
        page, new = _of_all(client, search or "", topic, limit)
    else:
        if search is not None:
            raise click.UsageError("--search goes with --all.")
        one_of(stream, group)
        page, new = _of_one(client, stream, group, topic, after, limit, follow)
    if not follow:
        none = "there is no such entry" if topic or search or after is not None else "nothing was recorded yet"
        output.show(page, lambda: _lines(page, of_all, none, output.times))
        return
    entries = page["entries"]
    while True:
        for each in entries:
            output.show_line(each, partial(_line, each, output.times))
        time.sleep(REFRESH_MS / 1000)
        entries = client.until_answered(new)


def _of_one(
    client: ControllerClient,
    stream: str | None,
    group: str | None,
    topic: str | None,
    after: int | None,
    limit: int,
    follow: bool,
) -> tuple[Page, Callable[[], Entries]]:
    """The newest entries of a stream or a group, or those after a seq; and what gives those that are new since."""

    def whose() -> object:
        """What an earlier stream or group of the name did not have."""
        if group is not None:
            return client.run(describe_group(group)).created_at
        return client.run(describe(stream or "")).identity

    present = whose() if follow else None
    found, omitted = _entries(client, stream, group, after or 0)
    wanted = [each for each in found if topic in (None, each["topic"])]
    shown = wanted[-limit:] if after is None else wanted[:limit]
    is_all = after is None or len(wanted) <= limit
    seen = (found if is_all else shown)[-1]["seq"] if found else after or 0

    def new() -> Entries:
        nonlocal seen, present
        found, _ = _entries(client, stream, group, seen)
        while (now := whose()) != present:  # it was created again, and its journal begins anew
            seen, present = 0, now
            found, _ = _entries(client, stream, group, seen)
        seen = found[-1]["seq"] if found else seen
        return [each for each in found if topic in (None, each["topic"])]

    return {"entries": shown, "next": None, "omitted": omitted}, new


def _of_all(client: ControllerClient, search: str, topic: str | None, limit: int) -> tuple[Page, Callable[[], Entries]]:
    """The newest entries of all streams, oldest first; and what gives those that are new since."""
    asked = partial(journals, topics=() if topic is None else (topic,), search=search)
    page = client.ask(asked(limit=limit)).json
    found = page["entries"]
    while page["next"] is not None and len(found) < limit:  # a long search comes in pages
        page = client.ask(asked(before=page["next"], limit=limit - len(found))).json
        found += page["entries"]
    first = newest = found[0]["at"] if found else 0
    seen = {_place(each) for each in found}

    def new() -> Entries:
        nonlocal newest, seen
        since = max(first, newest - ENTRIES_LATE_MS)
        again = client.every(lambda before, count: asked(since=since, before=before, limit=count), "entries")
        entries = [each for each in reversed(again) if _place(each) not in seen]
        newest, seen = max([newest, *(each["at"] for each in again)]), {_place(each) for each in again}
        return entries

    return {"entries": found[::-1], "next": page["next"]}, new


def _place(entry: dict[str, Any]) -> tuple[str, int, int]:
    return entry["stream"], entry["seq"], entry["at"]  # a stream that is created again has the same seqs


def _lines(page: Page, of_all: bool, none: str, times: Times) -> list[str]:
    """The table, with refusals of one kind as one, where the newest of them is."""
    newest_first = reversed(page["entries"])
    folds = folded((each.get("stream", ""), convert(each, JournalEntry)) for each in newest_first)[::-1]
    rows = []
    for each in folds:
        often = f": {each.times:,} times since {times.show(each.first_at)}" if each.times > 1 else ""
        rows.append(_row(each.stream if of_all else None, each.entry, often, times))
    header = ("at", "stream", "topic", "by", "what") if of_all else ("seq", "at", "topic", "by", "what")
    omitted = ", ".join(f"{count} {name}" for name, count in sorted(page.get("omitted", {}).items()))
    return [
        *listing(header, rows, none=none),
        *(["", f"too fast to be listed, at this controller: {omitted}"] if omitted else []),
    ]


def _line(entry: dict[str, Any], times: Times) -> str:
    return GAP.join(map(cell, _row(entry.get("stream"), convert(entry, JournalEntry), "", times)))


def _row(stream: str | None, entry: JournalEntry, often: str, times: Times) -> tuple[object, ...]:
    at = times.show(entry.at)
    told = f"{story(entry.kind, entry.details, times)}{often}"
    return (*((entry.seq, at) if stream is None else (at, stream)), entry.topic, entry.by, told)


def _entries(
    client: ControllerClient, stream: str | None, group: str | None, after: int
) -> tuple[Entries, dict[str, int]]:
    """All entries after a seq, of which there are never very many, and what came too fast to be recorded."""
    found: Entries = []
    on: int | None = after
    omitted: dict[str, int] = {}
    while on is not None:
        whose = journal(stream or "", after=on, limit=PAGE_ENTRIES) if group is None else None
        page = client.ask(whose or group_journal(group or "", after=on, limit=PAGE_ENTRIES))
        found += page.json["entries"]
        omitted, on = dict(page.value.omitted), page.value.next
    return found, omitted
