"""One line for each stream and time key: its state, its time, its lag, its writers, and who holds time back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click

from controller.cli.client import Answered, ControllerClient
from controller.cli.options import Command, name_of, option
from controller.cli.screen import table
from controller.operators.condition_text import ahead_text
from controller.operators.unread_text import why_unread
from controller.operators.wording import NOTHING, Times, behind, counts, holding, key_name, named, refused, span
from strandline.client.calls import status
from strandline.core.note import DEFAULT_KEY
from strandline.errors import UnknownStream
from strandline.limits import PAGE_ENTRIES
from strandline.wire.status import KeyStatus, State, StatusPage, StreamStatus

STREAMS_SHOWN: Final = 50
SHARED_MS: Final = 5_000  # a status that is older is not of now: it is shared for so long
NAMED_CHARACTERS: Final = 7_500  # of the streams or groups that one call names, in its path


@dataclass(slots=True)
class StreamsSeen:
    """Streams by name, each as it came and as a value, at the controller's clock; and why others have no status."""

    at: int = 0
    streams: dict[str, StreamStatus] = field(default_factory=dict)
    json: list[Any] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    known: int = 0  # how many there are in all
    partial: bool = False  # others may be in trouble that the controller could not read
    reason: str | None = None  # why the controller cannot serve
    controllers: Mapping[str, int] = field(default_factory=dict)  # by state

    @property
    def names(self) -> list[str]:
        """The streams in the order in which they came, and those without a status."""
        return list(dict.fromkeys([*self.streams, *self.unread]))

    def add(self, answered: Answered[StatusPage], most: int | None = None) -> None:
        """Adds those of an answer that are new, while there are fewer than `most`."""
        page = answered.value
        self.at, self.controllers = page.at, page.controllers
        for each, as_json in zip(page.streams, answered.json["streams"], strict=True):
            if each.stream not in self.streams and (most is None or len(self.streams) < most):
                self.streams[each.stream] = each
                self.json.append(as_json)
        self.unread |= {name: why for name, why in page.unread.items() if most is None or len(self.names) < most}
        self.known = max(self.known, page.counts.streams)
        self.partial, self.reason = page.partial, page.controller.reason

    @property
    def lacks(self) -> str | None:
        """What is not known, in a sentence; None if everything is."""
        if not self.partial:
            return None
        if self.reason is None:
            return "the controller could not read the status of all streams, and more may be in trouble"
        return f"this is from before, and more may be in trouble: {self.reason}"


@dataclass(frozen=True, slots=True)
class StreamLine:
    """A line of the table. It stands out where somebody has to look."""

    cells: tuple[str, ...]
    stands_out: bool = False


HEADER = ("stream", "key", "as of", "state", "time", "lag", "writers", "refused", "held by")


def ask_streams(
    client: ControllerClient, names: Sequence[str] = (), limit: int = PAGE_ENTRIES, *, trouble: bool = False
) -> StreamsSeen:
    """Asks about these streams; if none is named, about those in trouble, the worst first, and then, without `trouble`,
    about the first by name."""
    seen = StreamsSeen()
    if names:
        for some in in_calls(dict.fromkeys(names)):
            seen.add(client.ask(status(some, limit=limit)))
        return seen
    seen.add(client.ask(status(limit=limit, trouble=True)))
    if trouble:
        seen.known = len(seen.names)
    else:
        seen.add(client.ask(status(limit=limit)), most=limit)
    return seen


def of_streams(command: Command) -> Command:
    """Adds which streams a command shows: those that are named, or those in trouble, or all."""
    names = click.argument("streams", nargs=-1, type=name_of("stream"), help="which; else all, those in trouble first")
    return names(option("--trouble", is_flag=True, help="only streams in trouble, the worst first")(command))


def ask_known(client: ControllerClient, names: Sequence[str], limit: int, *, trouble: bool) -> StreamsSeen:
    """The same; raises UnknownStream for a name that is none's."""
    if names and trouble:
        raise click.UsageError("--trouble is in place of names.")
    seen = ask_streams(client, names, limit, trouble=trouble)
    for name in names:
        if name not in seen.streams and name not in seen.unread:
            raise UnknownStream(stream=name)
    return seen


def frame(seen: StreamsSeen) -> dict[str, object]:
    """What is seen at one moment, for --json."""
    unread = {"unread": seen.unread} if seen.unread else {}
    partial = {"partial": True, "error": seen.lacks} if seen.partial else {}
    return {"time": seen.at, "streams": seen.json, "resting": _resting(seen), **unread, **partial}


def _resting(seen: StreamsSeen) -> dict[str, int]:
    """The time that each stream at rest has reached."""
    resting = {name: [each.resting for each in stream.keys.values()] for name, stream in seen.streams.items()}
    return {name: time for name, times in resting.items() for time in times if time is not None}


def all_lines(seen: StreamsSeen, times: Times, named: Sequence[str] = ()) -> list[StreamLine]:
    """The lines of these streams, or of all in the order in which they came."""
    return [line for name in dict.fromkeys(named or seen.names) for line in lines_of(name, seen, times)]


def lines_of(name: str, seen: StreamsSeen, times: Times) -> list[StreamLine]:
    """A line for each time key of a stream."""
    stream = seen.streams.get(name)
    if stream is None:
        code = seen.unread.get(name)
        why = "the stream is gone" if code is None else why_unread(code)
        return [StreamLine((name, *(NOTHING for _ in HEADER[2:]), why))]
    age_ms = seen.at - stream.seen_at
    as_of = f"{span(age_ms)} ago" if age_ms > SHARED_MS else NOTHING
    return [
        StreamLine(
            (
                name,
                key_name(key),
                as_of,
                state_text(each, stream.seen_at),
                times.show(each.time),
                NOTHING if each.lag_ms is None else behind(each.lag_ms),
                counts(each.writers),
                refused(stream) or NOTHING,
                _held(stream, key, each),
            ),
            each.state.is_urgent,
        )
        for key, each in stream.keys.items()
    ]


def state_text(status: KeyStatus, seen_at: int) -> str:
    """The state, and for how long already where that says something."""
    if status.state_since is None or status.state in (State.FINE, State.SEALED):
        return status.state.text
    return f"{status.state.text} for {span(seen_at - status.state_since)}"


def _held(stream: StreamStatus, key: str, status: KeyStatus) -> str:
    holder = stream.held_by.get(key) if status.held_back else None
    if status.state in (State.AHEAD, State.STALLED) or (holder is None and status.state.stands_still):
        held = status.reason
    else:
        held = "; ".join(filter(None, ("sealed" if stream.sealed else holding(holder), ahead_text(status))))
    if status.complete:
        return held
    return f"{held}; the last mark is without {named(status.excluded, len(status.excluded), status.excluded_writers)}"


def rows(lines: Sequence[StreamLine]) -> list[str]:
    """The table. The keys' column is left out where all are the default one, that of refusals where there are none,
    and that of rows' ages where all are of now."""
    if not lines:
        return []
    keyed = any(line.cells[1] not in (key_name(DEFAULT_KEY), NOTHING) for line in lines)
    empty = {name for name in ("as of", "refused") if all(line.cells[HEADER.index(name)] == NOTHING for line in lines)}
    left_out = empty if keyed else empty | {"key"}
    places = [place for place, name in enumerate(HEADER) if name not in left_out]
    return table([HEADER[place] for place in places], [[line.cells[place] for place in places] for line in lines])


def stream_rows(seen: StreamsSeen, times: Times, named: Sequence[str], *, none: str, others: str | None) -> list[str]:
    """The lines of these streams, or of all, and how many there are besides and how to see these `others`; `none` says
    that there is no stream, as far as that is known."""
    lines, more = rows(all_lines(seen, times, named)), seen.known - len(seen.names)
    if others is not None and more > 0:
        lines.append(f"and {more:,} more: {others}")
    return lines or ([] if seen.partial else [none])


def in_calls(names: Iterable[str]) -> list[list[str]]:
    """Names, as many in a call as there is room for in its path."""
    calls, room = list[list[str]](), 0
    for name in names:
        needed = len(name) + len("&stream=")
        if needed > room:
            calls.append([])
            room = NAMED_CHARACTERS
        calls[-1].append(name)
        room -= needed
    return calls
