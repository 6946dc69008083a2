"""`strandline journal`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from controller.cli.client import REFRESH_MS, ControllerClient, calls_controller
from controller.cli.options import (
    ENTRIES_SHOWN,
    Whole,
    group_option,
    json_option,
    name_of,
    one_of,
    option,
    times_option,
)
from controller.cli.screen import table
from controller.status.journal_text import Folded, folded, story
from controller.terminal import say
from controller.wording import NOTHING, Times, compact, indented
from strandline.client.calls import journal, journals
from strandline.client.group_calls import group_journal
from strandline.limits import PAGE_ENTRIES, TIME_BOUND_MS
from strandline.wire.journal import TOPICS, JournalEntry
from strandline.wire.shapes import convert


@click.command
@click.argument("stream", required=False, type=name_of("stream"), help="the stream")
@group_option
@option("--all", "of_all", is_flag=True, help="of all streams, in place of one")
@option("--search", metavar="WORDS", help="with --all: only entries with these words, in any order")
@option("--topic", type=click.Choice(TOPICS), help="only entries on this")
@option(
    "--after", type=Whole(0, TIME_BOUND_MS - 1), metavar="SEQ", help="from the entry after this seq, not the newest"
)
@option("--limit", type=Whole(1, PAGE_ENTRIES), default=ENTRIES_SHOWN, help="so many, before those that are followed")
@option("--follow", is_flag=True, help="go on with each new entry until Ctrl-C; with --json one a line")
@calls_controller
@json_option
@times_option
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
    as_json: bool,
    times: Times,
) -> None:
    """Show what happened to a stream, a reader group, or all streams.

    The journal has refusals, changes of state, who held time back, and what administrators did.
    """
    if of_all:
        if stream is not None or group is not None or after is not None:
            raise click.UsageError("--all is in place of a stream or a reader group, and has no --after.")
        _show_all(client, search or "", topic, limit, follow=follow, as_json=as_json, times=times)
        return
    if search is not None:
        raise click.UsageError("--search goes with --all.")
    one_of(stream, group)
    found, omitted = _entries(client, stream, group, after or 0)
    wanted = [each for each in found if topic in (None, each["topic"])]
    shown = wanted[-limit:] if after is None else wanted[:limit]
    if not follow:
        if as_json:
            say(indented({"entries": shown, "next": None, "omitted": omitted}))
        else:
            header = ("seq", "at", "topic", "by", "what")
            rows = [(str(each.entry.seq), *_folded_row(each, times)) for each in _folded(shown)]
            none = "nothing was told yet" if after is None and topic is None else "there is no such entry"
            lines = table(header, rows) if rows else [none]
            say("\n".join([*lines, *_left_out(omitted)]))
        return
    seen = found[-1]["seq"] if found else after or 0
    while True:
        for each in shown:
            say(compact(each) if as_json else "  ".join(_row(each, times)))
        time.sleep(REFRESH_MS / 1000)
        found, _ = client.until_answered(partial(_entries, client, stream, group, seen))
        seen = found[-1]["seq"] if found else seen
        shown = [each for each in found if topic in (None, each["topic"])]


def _show_all(
    client: ControllerClient, search: str, topic: str | None, limit: int, *, follow: bool, as_json: bool, times: Times
) -> None:
    """Shows the newest entries of all streams, oldest first."""
    topics = () if topic is None else (topic,)
    page = client.ask(journals(topics=topics, search=search, limit=limit)).json
    entries = page["entries"]
    while page["next"] is not None and len(entries) < limit:  # a long search comes in pages
        asked = journals(topics=topics, search=search, before=page["next"], limit=limit - len(entries))
        page = client.ask(asked).json
        entries += page["entries"]
    shown = entries[::-1]
    if not follow:
        if as_json:
            say(indented({"entries": shown, "next": page["next"]}))
            return
        header = ("at", "stream", "topic", "by", "what")
        folds = [(each.stream, _folded_row(each, times)) for each in _folded(shown)]
        lines = table(header, [(at, name, *rest) for name, (at, *rest) in folds])
        none = "there is no such entry" if topics or search else "nothing was told yet"
        say("\n".join(lines) if shown else none)
        return
    newest, seen = 0, set[tuple[str, int]]()  # the moment of the newest entry, and the entries of that moment
    while True:
        for each in shown:
            say(compact(each) if as_json else "  ".join(_row_of_all(each, times)))
            if each["at"] > newest:
                newest, seen = each["at"], set()
            seen.add((each["stream"], each["seq"]))
        time.sleep(REFRESH_MS / 1000)
        found = client.until_answered(partial(_newest, client, topics, search, newest))
        shown = [each for each in found if (each["stream"], each["seq"]) not in seen]


def _newest(client: ControllerClient, topics: Sequence[str], search: str, since: int) -> list[dict[str, Any]]:
    """The entries of all streams from a moment on, oldest first."""
    page = client.ask(journals(topics=topics, search=search, since=since, limit=PAGE_ENTRIES)).json
    return list(page["entries"][::-1])


def _folded(entries: Sequence[dict[str, Any]]) -> list[Folded[JournalEntry]]:
    """Entries, oldest first, with refusals of one kind as one, where the newest of them is."""
    return folded((each.get("stream", ""), convert(each, JournalEntry)) for each in reversed(entries))[::-1]


def _folded_row(each: Folded[JournalEntry], times: Times) -> tuple[str, ...]:
    text = story(each.entry.kind, each.entry.details, times)
    often = f": {each.times:,} times since {times.show(each.first_at)}" if each.times > 1 else ""
    return times.show(each.entry.at), each.entry.topic, each.entry.by or NOTHING, f"{text}{often}"


def _row_of_all(entry: dict[str, Any], times: Times) -> tuple[str, ...]:
    _, at, topic, by, text = _row(entry, times)
    return at, entry["stream"], topic, by, text


def _entries(
    client: ControllerClient, stream: str | None, group: str | None, after: int
) -> tuple[list[Any], dict[str, int]]:
    """All entries after a seq, of which there are never very many, and what came too fast to be recorded."""
    found: list[Any] = []
    on: int | None = after
    omitted: dict[str, int] = {}
    while on is not None:
        whose = journal(stream or "", after=on, limit=PAGE_ENTRIES) if group is None else None
        page = client.ask(whose or group_journal(group or "", after=on, limit=PAGE_ENTRIES))
        found += page.json["entries"]
        omitted, on = dict(page.value.omitted), page.value.next
    return found, omitted


def _left_out(omitted: dict[str, int]) -> list[str]:
    if not omitted:
        return []
    return ["", "came too fast to be told: " + ", ".join(f"{count} {name}" for name, count in sorted(omitted.items()))]


def _row(entry: dict[str, Any], times: Times) -> tuple[str, ...]:
    text = story(entry["kind"], entry["details"], times)
    return str(entry["seq"]), times.show(entry["at"]), entry["topic"], entry["by"] or NOTHING, text
