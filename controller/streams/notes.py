"""Notes: checked and applied one by one, durable together.

A request with many notes is applied a portion at a time, in turns with other requests: a single note waits for one
portion of each. The smallest request first would let a large one wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from controller.commit.loop import Cold, CommitLoop, Locked
from controller.limits import DEFAULT_LIMITS
from controller.storage.subjects import Kind, Subject
from controller.streams.loaded_stream import LoadedStream
from controller.streams.registry import Streams, refuse
from strandline.core.aggregate import Holder
from strandline.core.changes import NoteResult
from strandline.core.config import TimeDomain
from strandline.core.note import NO_TIMES, Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.core.time_units import is_epoch
from strandline.errors import (
    Overloaded,
    PositionWentBack,
    Refused,
    StoreUnavailable,
    StoreUndecided,
    StrandlineError,
    TimeWentBack,
)
from strandline.wire.status import AHEAD_NAMED_MS

PORTION_NOTES: Final = 256  # of a request, applied at once; the next ones wait for the next commit
NOTE_SEGMENTS: Final = 32  # so many segments of a position count as one more note of work; each time key is one

Answer = TypeVar("Answer")
Given: TypeAlias = tuple[str, Note | StrandlineError]  # a note with its stream, or why it cannot be one


class Noted(msgspec.Struct, frozen=True, gc=False):  # five times faster to make than a NamedTuple
    """The answer to a note and, by key, the holder of time if the note led to no mark."""

    answer: NoteResult
    graph: SegmentGraph  # for the cuts of the marks
    held_by: dict[str, Holder]
    ahead_ms: Mapping[str, int]  # by key, how far a time is ahead of the clock, where that is named


def as_result(error: StrandlineError) -> StrandlineError:
    """An error that is kept among results, without the frames that it came through: they keep alive all that was at
    work, and with it the results themselves."""
    return error.with_traceback(None)


class Notes:
    """Takes notes for any stream."""

    def __init__(
        self, streams: Streams, commits: CommitLoop, *, waiting_bytes: int = DEFAULT_LIMITS.waiting_bytes
    ) -> None:
        self.limit_bytes = waiting_bytes
        self._waiting_bytes = 0  # of requests with many notes
        self._streams = streams
        self._commits = commits

    def take(self, stream: str, note: Note, *, tail: bool = False, by: str | None = None) -> Awaitable[Noted]:
        """Takes one note and returns when it is durable. Raises if the note is refused, and changes nothing then.

        `by` is the name of the caller's token, for the journal.
        """

        def step(loaded: LoadedStream, locked: Locked) -> Noted:
            answer = _take(loaded, note, locked, by, tail=tail)
            held = {} if answer.marks else _held_by(loaded.stream, note.times, locked.now)
            return Noted(answer, loaded.stream.graph, held, _ahead(loaded.stream, note.times, locked.now))

        return self._streams.cache.change(stream, step)

    def check_room(self, size_bytes: int) -> None:
        """Raises Overloaded if, with a body of that size, those of the requests with many notes are too large."""
        if self._waiting_bytes and self._waiting_bytes + size_bytes > self.limit_bytes:
            what = "bytes of notes in large requests are waiting"
            raise Overloaded(waiting=self._waiting_bytes, limit=self.limit_bytes, what=what)

    @contextmanager
    def room_for(self, size_bytes: int) -> Iterator[None]:
        """For a request with many notes, as long as it is at work. Raises what `check_room` raises."""
        self.check_room(size_bytes)
        self._waiting_bytes += size_bytes
        try:
            yield
        finally:
            self._waiting_bytes -= size_bytes

    async def take_all(
        self,
        count: int,
        note_at: Callable[[int], Given],
        answered: Callable[[int, Sequence[Noted | StrandlineError]], Sequence[Answer]],
        failed: Callable[[StrandlineError], Answer],
        by: str | None = None,
    ) -> list[Answer]:
        """Takes many notes in order, each with its stream, and returns their answers when they are durable. A refused
        note does not affect the others.

        `note_at` gives the note at a place; one that could not be decoded is its error, and its own result. Other calls
        may come between two portions, so the notes are as separate as if each had come alone. `answered` makes the
        answers to the notes from a place on, so that nothing else of them need be kept. If a commit fails, `failed`
        makes the answers to its notes, and to all that follow. Raises if no note became durable.
        """
        request, answers, durable = _Request(count, note_at, by), list[Answer](), False
        portions = request.portions()
        portion = following = next(portions, None)
        while portion is not None:
            try:
                taken = await self._queue(portion, request)
                if following is portion:
                    following = next(portions, None)  # is read meanwhile
                results = await taken
            except Cold:  # a stream has left memory: it is loaded again
                continue
            except (StoreUnavailable, StoreUndecided) as error:
                if not durable:
                    raise
                return answers + [failed(as_result(error))] * (count - len(answers))
            answers += answered(len(answers), results)
            durable = durable or any(isinstance(each, Noted) for each in results)
            portion = following
        return answers

    async def _queue(self, portion: _Portion, request: _Request) -> asyncio.Future[list[Noted | StrandlineError]]:
        """Has a portion applied in its turn, once the streams in it are loaded."""
        wanted = [name for name in portion.streams if name not in request.missing]
        cold = [name for name in wanted if self._streams.find_loaded(name) is None]
        loads = await asyncio.gather(*map(self._streams.get, cold), return_exceptions=True)
        for name, found in zip(cold, loads, strict=True):
            if isinstance(found, StrandlineError):
                request.missing[name] = as_result(found)
            elif isinstance(found, BaseException):
                raise found
        subjects = [Subject(Kind.STREAM, name) for name in wanted if name not in request.missing]
        step = partial(self._take_portion, portion, request)
        return self._commits.portion(*subjects, step=step, work=portion.work)

    def _take_portion(self, portion: _Portion, request: _Request, locked: Locked) -> list[Noted | StrandlineError]:
        """Takes the notes of a portion, one after the other: all of them, or none if a stream has left memory."""
        results: list[Noted | StrandlineError] = []
        names = [name for name in portion.streams if name not in request.missing]
        loaded = {name: locked.item(self._streams.cache, Subject(Kind.STREAM, name)) for name in names}
        for stream, run in groupby(portion.given, key=itemgetter(0)):
            notes = [each for _, each in run]
            if stream in loaded:
                first = portion.first + len(results)
                results += self._take_run(loaded[stream], notes, request, portion, first, locked)
                continue
            for each in notes:
                if isinstance(each, StrandlineError):
                    self._streams.journal_refusal(stream, each, request.by)
                results.append(each if isinstance(each, StrandlineError) else request.missing[stream])
        return results

    def _take_run(
        self,
        loaded: LoadedStream,
        notes: Sequence[Note | StrandlineError],
        request: _Request,
        portion: _Portion,
        first: int,
        locked: Locked,
    ) -> list[Noted | StrandlineError]:
        """Takes notes of one stream, which stand in the request from place `first` on.

        Their answers name who holds time back after the last of them: what held it in between is over.
        """
        now, graph = locked.now, loaded.stream.graph
        results: list[Noted | StrandlineError] = []
        held: dict[tuple[str, ...], dict[str, Holder]] = {}  # by keys; each is filled at the end
        for place, note in enumerate(notes, first):
            if isinstance(note, StrandlineError):
                self._streams.journal_refusal(loaded.name, note, request.by)
                results.append(note)
                continue
            try:
                repeats = partial(request.had_done, place, portion.number, loaded.stream, now)
                answer = _take(loaded, note, locked, request.by, repeats=repeats)
            except Refused as error:
                results.append(as_result(error))
                continue
            keys = () if answer.marks else tuple(note.times)
            of_keys = held.get(keys)
            if of_keys is None:
                of_keys = held[keys] = {}
            results.append(Noted(answer, graph, of_keys, _ahead(loaded.stream, note.times, now)))
        for keys, of_keys in held.items():
            of_keys.update(_held_by(loaded.stream, keys, now))
        return results


def _take(
    loaded: LoadedStream,
    note: Note,
    locked: Locked,
    by: str | None,
    *,
    tail: bool = False,
    repeats: Callable[[Refused], bool] | None = None,
) -> NoteResult:
    """Takes a note. Raises Refused, unless it `repeats` one that was taken before."""
    try:
        answer = loaded.stream.note(note, locked.now, tail=tail)
    except Refused as error:
        if repeats is None or not repeats(error):
            if refuse(loaded, error, locked.now, by, writer=note.writer):
                locked.change(loaded)
            raise
        answer = NoteResult(False, dict.fromkeys(note.times), ())
    locked.change(loaded)
    loaded.tally.notes += 1
    if answer.late:
        loaded.tally.late_notes += 1
    for segment in note.position:
        loaded.noted_at[segment] = locked.now
    return answer


def _held_by(stream: Stream, keys: Iterable[str], now: int) -> dict[str, Holder]:
    """The writers that hold time back, by key."""
    held: dict[str, Holder] = {}
    for key in keys:
        holder = stream.held_by(key, now)
        if holder is not None:
            held[key] = holder
    return held


def _ahead(stream: Stream, times: Mapping[str, int], now: int) -> Mapping[str, int]:
    """How far times are ahead of the clock, by key: dates, from AHEAD_NAMED_MS on. In the ingestion domain the clock
    bounds what counts, so none is."""
    named = now + AHEAD_NAMED_MS
    for time in times.values():
        if time >= named and stream.config.time_domain is TimeDomain.EVENT:
            return {key: each - now for key, each in times.items() if each >= named and is_epoch(each)}
    return NO_TIMES


class _Portion(NamedTuple):
    """Some notes of a request, from place `first` on, with their streams."""

    number: int
    first: int
    given: Sequence[Given]
    work: int

    @property
    def streams(self) -> Iterable[str]:
        return dict.fromkeys(stream for stream, each in self.given if isinstance(each, Note))


class _Request:
    """The notes of one request, and what became of it so far. It may be a repeat of one whose answer was lost."""

    __slots__ = ("_count", "_done", "_note_at", "_places", "by", "missing")

    def __init__(self, count: int, note_at: Callable[[int], Given], by: str | None) -> None:
        self.by = by  # the name of the caller's token
        self.missing: dict[str, StrandlineError] = {}  # why no notes of a stream are taken, for the rest of the request
        self._count = count
        self._note_at = note_at
        self._places: dict[tuple[str, str], list[int]] = {}  # by stream and writer; computed when first needed
        # By stream and writer: the places of the notes that were done before, and when and in which state it was asked.
        self._done: dict[tuple[str, str], tuple[set[int], int, object]] = {}

    def portions(self) -> Iterator[_Portion]:
        """Each portion, with its work in notes of one key."""
        given, work, number = list[Given](), 0, 0
        for place in range(self._count):
            stream, note = self._note_at(place)
            given.append((stream, note))
            work += max(1, len(note.times)) + len(note.position) // NOTE_SEGMENTS if isinstance(note, Note) else 1
            if work >= PORTION_NOTES or place == self._count - 1:
                number += 1
                yield _Portion(number, place + 1 - len(given), given, work)
                given, work = [], 0

    def had_done(self, place: int, asking: int, stream: Stream, now: int, error: Refused) -> bool:
        """Whether the refused note was taken when its request was sent before; see `strandline.core.repetition`.

        The request of before may still be at work, so each portion asks anew if the writer has moved on.
        """
        name, note = self._note_at(place)
        if not isinstance(error, TimeWentBack | PositionWentBack) or not isinstance(note, Note):
            return False
        whose = (name, note.writer)
        done, portion, stored = self._done.get(whose, (set[int](), 0, None))
        if place in done or portion == asking or stored == (state := stream.noted_by(note.writer)):
            return place in done
        places = self._places_of(whose)
        notes = [each for each in (self._note_at(number)[1] for number in places) if isinstance(each, Note)]
        done = {places[number] for number in stream.done_before(notes, now)} if notes[1:] else set()
        self._done[whose] = done, asking, state
        return place in done

    def _places_of(self, whose: tuple[str, str]) -> list[int]:
        if not self._places:
            for place in range(self._count):
                name, note = self._note_at(place)
                if isinstance(note, Note):
                    self._places.setdefault((name, note.writer), []).append(place)
        return self._places[whose]
