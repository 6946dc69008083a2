"""One line for each stream and time key: its state, its time, its lag, its writers, and who holds time back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.cli.client import ControllerClient
from controller.cli.limits import NAMED_CHARACTERS
from controller.cli.screen import table
from controller.format import NOTHING, Times, behind, counts, holding, key_name, span
from controller.status.condition import State
from controller.status.unread_text import why_unread
from strandline.client.calls import status
from strandline.core.note import DEFAULT_KEY
from strandline.limits import PAGE_ENTRIES
from strandline.wire.status import KeyStatusReply, StreamStatusReply


@dataclass(slots=True)
class StreamsSeen:
    """Streams by name, each as it came and as a value, at the controller's clock; and why others have no status."""

    at: int = 0
    streams: dict[str, StreamStatusReply] = field(default_factory=dict)
    json: list[Any] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    known: int = 0  # how many there are in all


@dataclass(frozen=True, slots=True)
class StreamLine:
    """A line of the table. It stands out where time stands still."""

    cells: tuple[str, ...]
    stands_out: bool = False


STANDS_OUT = {state.word for state in State if state.stands_still}
HEADER = ("stream", "key", "state", "time", "lag", "writers", "held by")


def look(client: ControllerClient, names: Sequence[str] = (), limit: int = PAGE_ENTRIES) -> StreamsSeen:
    """Asks about these streams, or about the first by name: in one call, if not very many are named."""
    seen = StreamsSeen()
    for some in _requests(names):
        page = client.ask(status(some, limit=limit))
        seen.at = page.value.at
        seen.streams |= {each.stream: each for each in page.value.streams}
        seen.json += page.json["streams"]
        seen.unread |= page.value.unread
        seen.known += page.value.counts.streams
    return seen


def _requests(names: Sequence[str]) -> list[list[str]]:
    """The names, as many in a request as there is room for."""
    requests, room = [list[str]()], NAMED_CHARACTERS
    for name in names:
        if len(name) > room:
            requests, room = [*requests, []], NAMED_CHARACTERS
        requests[-1].append(name)
        room -= len(name) + len("&stream=")
    return requests


def lines_of(name: str, seen: StreamsSeen, times: Times) -> list[StreamLine]:
    """A line for each time key of a stream."""
    stream = seen.streams.get(name)
    if stream is None:
        code = seen.unread.get(name)
        why = "the stream is gone" if code is None else why_unread(code)
        return [StreamLine((name, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, why))]
    return [
        StreamLine(
            (
                name,
                key_name(key),
                state_text(each, stream.seen_at),
                times.show(each.time),
                NOTHING if each.lag_ms is None else behind(each.lag_ms),
                counts(each.writers),
                _held(stream, key, each),
            ),
            each.state in STANDS_OUT,
        )
        for key, each in stream.keys.items()
    ]


def state_text(status: KeyStatusReply, seen_at: int) -> str:
    """The state, and for how long already where that says something."""
    word = status.state.replace("_", " ")
    since = status.state_since
    return word if since is None or status.state in ("fine", "sealed") else f"{word} for {span(seen_at - since)}"


def _held(stream: StreamStatusReply, key: str, status: KeyStatusReply) -> str:
    holder = stream.held_by.get(key) if status.held_back else None
    if status.state == "stalled" or (holder is None and status.state in STANDS_OUT):
        held = status.reason
    else:
        held = "sealed" if stream.sealed else holding(holder)
    if status.complete:
        return held
    more = status.excluded_writers - len(status.excluded)
    return f"{held}; the last mark is without {', '.join(status.excluded)}{f' and {more} more' if more > 0 else ''}"


def rows(lines: Sequence[StreamLine]) -> list[str]:
    """The table; the keys' column is left out where all are the default one."""
    keyed = any(line.cells[1] not in (key_name(DEFAULT_KEY), NOTHING) for line in lines)
    places = [place for place in range(len(HEADER)) if keyed or place != 1]
    return table([HEADER[place] for place in places], [[line.cells[place] for place in places] for line in lines])
