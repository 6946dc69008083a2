"""The page of a writer: its state in each time key, and its notes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from controller.commit.journal import Topic
from controller.dashboard.journal import journal_table
from controller.dashboard.limits import JOURNAL_READ, NOTES_SHOWN
from controller.dashboard.pages.page import Page, Tile, View, word_cell
from controller.dashboard.tables import Cell, Column, Table
from controller.dashboard.words import far_ahead, key_label, silence, stream_link, writer_word
from controller.operators.wording import NOTHING, Times, lag, moment, offsets, span
from controller.operators.writer_status import WriterDetails, WriterKey, WriterNote
from controller.storage.journal import JOURNAL_OF_STREAM
from strandline.wire.status import KeyStatus


async def writer_page(view: View, stream: str, name: str) -> Page:
    view.who.check(stream)
    details = await view.controller.status.of_writer(stream, name)
    found = await view.status.of_streams((stream,))
    by_key = {key.key: key for status in found.streams for key in status.keys.values()}
    journal = partial(view.history.journal, JOURNAL_OF_STREAM, stream, JOURNAL_READ, details.last_entry, writer=name)
    of_topics = {"refusals": (Topic.REFUSALS,), "registrations": (Topic.REGISTRATIONS,), "journal": ()}
    shows = {
        "stream": stream,
        "stream_link": stream_link(stream),
        "name": name,
        "details": details,
        "tiles": _writer_tiles(details),
        "keys": _writer_keys(view, details, by_key),
        "notes": _notes_table(view, details),
    }
    for each, topics in of_topics.items():
        shows[each] = journal_table(view.address, each, await journal(topics=topics), view.now)
    return Page("writer.html", name, shows)


def _writer_tiles(details: WriterDetails) -> list[Tile]:
    return [
        Tile("Last heard", f"{span(max(0, details.seen_at - details.heard_at))} ago"),
        Tile("Times out", _timeout(details)),
        Tile("Epoch", NOTHING if details.epoch is None else str(details.epoch)),
        Tile("Position", offsets(details.graph.frontier(details.position))),
    ]


def _timeout(details: WriterDetails) -> str:
    """When it times out if nothing more is heard of it."""
    if not details.counts:
        return NOTHING
    if details.times_out_in_ms is None:
        return "never"
    return f"in {span(details.times_out_in_ms)}" if details.times_out_in_ms else "now"


def _writer_keys(view: View, details: WriterDetails, by_key: Mapping[str, KeyStatus]) -> Table[WriterKey]:
    now = details.seen_at

    def state(each: WriterKey) -> Cell:
        key = by_key.get(each.key)
        word = writer_word(each.state, silence(details.heard_at, key, now, holds=each.holds), key)
        return word_cell(word, "" if key is None else far_ahead(key, details.name), "bad")

    def holds(each: WriterKey) -> str:
        """Whether it holds back a key that some writer does, and since when: marks wait also for one that keeps up."""
        key = by_key.get(each.key)
        if not each.holds or key is None or not key.held_back:
            return "no"
        since = each.held_since
        return "yes" if since is None else f"yes, since {moment(since, now)}, for {span(now - since)}"

    columns: list[Column[WriterKey]] = [
        Column("name", "Time key", None, cell=lambda each: key_label(each.key), essential=len(details.keys) > 1),
        Column("state", "State", None, cell=state),
        Column("time", "Time", None, cell=lambda each: Times().show(each.time), moment=True),
        Column("lag", "Lag", None, cell=lambda each: lag(each.time, now), right=True),
        Column("holds", "Holds time back", None, cell=holds),
    ]
    return Table(view.address, "keys", columns, details.keys, id=lambda k: k.key, rows=10)


def _notes_table(view: View, details: WriterDetails) -> Table[WriterNote]:
    graph = details.graph
    columns: list[Column[WriterNote]] = [
        Column("time", "Noted time", lambda each: each.time, Times().show, moment=True),
        Column("key", "Key", lambda each: each.key, key_label, essential=False),
        Column("position", "Position", None, cell=lambda each: offsets(graph.frontier(each.position))),
        Column("newest", "Newest event", lambda each: each.newest, Times().show, essential=False, moment=True),
    ]
    items = details.notes[:NOTES_SHOWN]
    return Table(
        view.address, "notes", columns, items, id=lambda each: f"{each.key}-{each.time}", text=lambda n: n.key, rows=10
    )
