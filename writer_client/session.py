"""What a writer does, written once: jobs that say step by step what is to be called, for both writers to drive.

job yields                   the writer
  Remote(call)               makes the call over its connection
  Local(work)                calls the log, which may wait (the async writer: in another thread)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from logs import Event, Log, Position
from strandline.changes import Registered
from strandline.names import check_name
from strandline.note import DEFAULT_KEY, Note, check_key
from strandline.protocol import calls
from strandline.protocol.calls import Call, clocked
from strandline.protocol.wire import NoteAnswer
from writer_client.errors import NeverNoted, NoLog, WriterClosed

Value = TypeVar("Value")
Times: TypeAlias = int | Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Remote:
    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Local:
    work: Callable[[], Any]


Step: TypeAlias = Remote | Local
Job: TypeAlias = Generator[Step, Any, Value]


class Session:
    """One writer of one stream. Its jobs are done one after the other: notes that overtake each other are refused."""

    def __init__(self, stream: str, writer: str, keys: Iterable[str], log: Log | None) -> None:
        self.stream = check_name("stream", stream)
        self.writer = check_name("writer", writer)
        self.keys = tuple(check_key(key) for key in keys)
        self.log = log
        self.closed = False
        self.epoch: int | None = None
        self.floors: Mapping[str, int | None] = {}
        self.clock: int | None = None
        self._holds = False  # registered, and not idle since
        self._found: Position | None = None  # where the log ended when this writer began
        self._times: dict[str, int] = {}
        self._position: dict[str, int] = {}

    # -- jobs --------------------------------------------------------------------------------------------------

    def register(self) -> Job[Registered]:
        self._check_open()
        registered = yield from self._clocked(calls.register(self.stream, self.writer, self.keys))
        self.epoch, self.floors, self._holds = registered.epoch, registered.floors, True
        if self.log is not None and self._found is None:
            # What an earlier process of this name appended and never noted lies below the log's end as it is now.
            ends = yield from _local(self.log.end_offsets)
            self._found = {segment: offset for segment, offset in ends.items() if offset}
        return registered

    def write(self, events: Iterable[Event]) -> Job[Position]:
        log = self._bound_log("write()")
        yield from self._hold()
        return (yield from _local(lambda: log.append(events)))

    def note_time(self, time: Times, position: Mapping[str, int] | None, newest: Times | None) -> Job[NoteAnswer]:
        log = self._bound_log("note_time()") if position is None else None
        yield from self._hold()
        if log is not None:
            position = self._reached((yield from _local(log.flush)))
            newest = newest if not self._found else None  # nobody said how new the events are that were there before
        assert position is not None
        return (yield from self._note(_by_key(time), position, _by_key(newest)))

    def idle(self, position: Mapping[str, int] | None) -> Job[None]:
        self._check_open()
        yield from self._settle(position, "idle()")
        yield from _remote(calls.idle(self.stream, self.writer, self.epoch))
        self._holds = False

    def close(self, position: Mapping[str, int] | None) -> Job[None]:
        self._check_open()
        yield from self._settle(position, "close()")
        yield from _remote(calls.close(self.stream, self.writer, self.epoch))
        self.closed = True

    # -- parts of them -----------------------------------------------------------------------------------------

    def _hold(self) -> Job[None]:
        """Registers a writer that does not hold time: it is new, or was idle."""
        self._check_open()
        if not self._holds:
            yield from self.register()

    def _note(
        self, times: Mapping[str, int], position: Mapping[str, int], newest: Mapping[str, int]
    ) -> Job[NoteAnswer]:
        note = Note(writer=self.writer, times=times, position=position, epoch=self.epoch, newest=newest)
        answer = yield from self._clocked(calls.note(self.stream, note))
        self._times.update(times)
        self._position.update(position)
        return answer

    def _settle(self, position: Mapping[str, int] | None, call: str) -> Job[None]:
        """Before going: notes the final position, where more was written than was noted.

        As nothing older will follow, any time is true: the last noted ones, or the floors. Where there are neither,
        a writer that has written must say one.
        """
        wrote = bool(position)
        if position is None and self.log is not None:
            own = yield from _local(self.log.flush)
            position, wrote = self._reached(own), bool(own)
        if not position or all(offset <= self._position.get(name, 0) for name, offset in position.items()):
            return
        times = {key: floor for key, floor in self.floors.items() if floor is not None}
        times |= {key: max(time, times.get(key, time)) for key, time in self._times.items()}
        if times:
            yield from self._note(times, position, {})
        elif wrote:
            raise NeverNoted(writer=self.writer, call=call)

    def _reached(self, own: Position) -> Position:
        """The position below which all lies that was appended in this writer's name."""
        found = self._found if self._found is not None else {}
        return {segment: max(own.get(segment, 0), found.get(segment, 0)) for segment in found | own}

    def _clocked(self, call: Call[Value]) -> Job[Value]:
        answer = yield from _remote(clocked(call))
        self.clock = answer.clock
        return answer.value

    def _check_open(self) -> None:
        if self.closed:
            raise WriterClosed(writer=self.writer)

    def _bound_log(self, call: str) -> Log:
        if self.log is None:
            raise NoLog(writer=self.writer, call=call)
        return self.log


def _remote(call: Call[Value]) -> Job[Value]:
    value: Value = yield Remote(call)
    return value


def _local(work: Callable[[], Value]) -> Job[Value]:
    value: Value = yield Local(work)
    return value


def _by_key(time: Times | None) -> Mapping[str, int]:
    if time is None:
        return {}
    return time if isinstance(time, Mapping) else {DEFAULT_KEY: time}
