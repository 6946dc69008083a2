"""Notes: checked and applied one by one, durable together.

A request with many notes is applied a portion at a time, in turns with other requests: a single note waits for one
portion of each. The smallest request first would let a large one wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias, TypeVar

import msgspec

from controller.clock import Clock
from controller.commit.group_commit import Committer, Durable
from controller.limits import DEFAULT_LIMITS
from controller.storage.subjects import Kind, Subject
from controller.streams.loaded_stream import LoadedStream
from controller.streams.registry import Streams
from controller.wording import AHEAD_NAMED_MS, is_epoch
from strandline.core.aggregate import Holder
from strandline.core.changes import NoteResult
from strandline.core.config import TimeDomain
from strandline.core.note import NO_TIMES, Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import Overloaded, PositionWentBack, Refused, StrandlineError, TimeWentBack, Undecided

PORTION_NOTES: Final = 64  # of a request, applied at once; then other calls are served
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
        self, streams: Streams, committer: Committer, clock: Clock, *, waiting_bytes: int = DEFAULT_LIMITS.waiting_bytes
    ) -> None:
        self.limit_bytes = waiting_bytes
        self._waiting_bytes = 0  # of requests with many notes
        self._streams = streams
        self._committer = committer
        self._clock = clock

    async def take(self, stream: str, note: Note, *, tail: bool = False, by: str | None = None) -> Noted:
        """Takes one note and returns when it is durable. Raises if the note is refused, and changes nothing then.

        `by` is the name of the caller's token, for the journal.
        """
        loaded = await self._streams.in_turn(stream)
        now = self._clock.now()
        try:
            answer = self._apply(loaded, note, now, tail, by)
            held = {} if answer.marks else _held_by(loaded.stream, note.times, now)
            noted = Noted(answer, loaded.stream.graph, held, _ahead(loaded.stream, note.times, now))
        except Refused:
            await self._committer.turn_over()
            raise
        except Exception as bug:
            self._committer.undo(loaded, bug)
            raise
        await self._committer.join(loaded)
        return noted

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
        run between two portions, so the notes are as separate as if each had come alone. `answered` makes the answers
        to the notes from a place on, so that nothing else of them need be kept. If a commit fails, `failed` makes the
        answers to its notes, and to all that were not yet checked. Raises if no note became durable.
        """
        request = _Request(count, note_at)
        answers: list[Answer] = []
        for portion, work in request.portions():
            await self._lock(portion, work, request)
            for stream, run in groupby(portion, key=itemgetter(0)):
                notes, first = [each for _, each in run], len(answers)
                results, durable = self._take_run(stream, notes, by, request, first)
                if durable is not None:
                    taken = [place for place, each in enumerate(results, first) if isinstance(each, Noted)]
                    request.waits.setdefault(durable, []).extend(taken)
                answers += answered(first, results)
        for durable in request.waits:
            with suppress(StrandlineError):
                await durable
        errors = request.failures()
        if errors and len(errors) == len(request.waits):
            raise next((each for each in errors.values() if isinstance(each, Undecided)), next(iter(errors.values())))
        for durable, error in errors.items():
            for place in request.waits[durable]:
                answers[place] = failed(error)
        return answers

    def _take_run(
        self,
        stream: str,
        notes: Sequence[Note | StrandlineError],
        by: str | None,
        request: _Request,
        first: int,
    ) -> tuple[Sequence[Noted | StrandlineError], Durable | None]:
        """Takes notes of one stream, which stand in the request from place `first` on. Returns their results, and the
        commit of those that were taken."""
        errors = [each for each in notes if isinstance(each, StrandlineError)]
        if len(errors) == len(notes):  # the stream is not loaded for them
            for error in errors:
                self.journal_refusal(stream, error, by)
            return errors, None
        missing = request.missing.get(stream)
        if missing is None:
            loaded = self._streams.find_in_turn(stream)
            assert loaded is not None, stream
            return self._apply_run(loaded, notes, by, request, first)
        return [each if isinstance(each, StrandlineError) else missing for each in notes], None

    async def _lock(self, portion: Sequence[Given], work: int, request: _Request) -> None:
        """Returns when it is the turn of this request, and of calls about the streams of a portion. Why a stream is
        missing then is in the request."""
        names = dict.fromkeys(stream for stream, each in portion if isinstance(each, Note))
        while True:
            for error in request.failures().values():
                request.missing = dict.fromkeys(names, error) | request.missing
            wanted = [name for name in names if name not in request.missing]
            cold = [name for name in wanted if self._streams.find_loaded(name) is None]
            if cold:
                loads = await asyncio.gather(*map(self._streams.get, cold), return_exceptions=True)
                for name, found in zip(cold, loads, strict=True):
                    if isinstance(found, StrandlineError):
                        request.missing[name] = as_result(found)
                    elif isinstance(found, BaseException):
                        raise found
                continue
            if not wanted:
                await asyncio.sleep(0)  # others are served
                return
            try:
                await self._committer.portion([Subject(Kind.STREAM, name) for name in wanted], work)
            except StrandlineError as error:
                request.missing |= dict.fromkeys(wanted, as_result(error))
                continue
            if not request.failures() and all(self._streams.find_in_turn(name) is not None for name in wanted):
                return

    def journal_refusal(self, stream: str, error: StrandlineError, by: str | None) -> None:
        """Journals a call that was refused before it reached the stream: an invalid note, or a call for a writer that
        the token does not allow. Does not load the stream for that."""
        loaded = self._streams.find_loaded(stream)
        if loaded is None or not isinstance(error, Refused):
            return
        self._streams.journal_refusal(loaded, error, self._clock.now(), by)

    def _apply_run(
        self,
        loaded: LoadedStream,
        notes: Sequence[Note | StrandlineError],
        by: str | None,
        request: _Request,
        first: int,
    ) -> tuple[list[Noted | StrandlineError], Durable | None]:
        """Takes notes of a stream that is loaded, one after the other.

        Their answers tell who holds time back after the last of them: what held it in between is over.
        """
        now, graph = self._clock.now(), loaded.stream.graph
        results: list[Noted | StrandlineError] = []
        held: dict[tuple[str, ...], dict[str, Holder]] = {}  # by keys; each is filled at the end
        taken = 0
        try:
            for place, note in enumerate(notes, first):
                if isinstance(note, StrandlineError):
                    self.journal_refusal(loaded.name, note, by)
                    results.append(note)
                    continue
                try:
                    answer = self._apply(loaded, note, now, False, by, request, place)
                except StrandlineError as error:
                    results.append(as_result(error))
                    continue
                taken += 1
                keys = () if answer.marks else tuple(note.times)
                of_keys = held.get(keys)
                if of_keys is None:
                    of_keys = held[keys] = {}
                results.append(Noted(answer, graph, of_keys, _ahead(loaded.stream, note.times, now)))
            for keys, of_keys in held.items():
                of_keys.update(_held_by(loaded.stream, keys, now))
        except Exception as bug:
            self._committer.undo(loaded, bug)
            raise
        return results, self._committer.join(loaded, taken) if taken else None

    def _apply(
        self,
        loaded: LoadedStream,
        note: Note,
        now: int,
        tail: bool,
        by: str | None,
        request: _Request | None = None,
        place: int = 0,
    ) -> NoteResult:
        try:
            answer = loaded.stream.note(note, now, tail=tail)
        except Refused as error:
            if request is None or not request.had_done(place, error, loaded.stream, now):
                self._streams.journal_refusal(loaded, error, now, by, writer=note.writer)
                raise
            answer = NoteResult(False, dict.fromkeys(note.times), ())
        loaded.counts.notes += 1
        if answer.late:
            loaded.counts.late(note.writer)
        for segment in note.position:
            loaded.noted_at[segment] = now
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


class _Request:
    """The notes of one request, a portion at a time, and what became of those before. The request may be a repeat of
    one whose answer was lost."""

    __slots__ = ("_count", "_done", "_note_at", "_places", "_portion", "missing", "waits")

    def __init__(self, count: int, note_at: Callable[[int], Given]) -> None:
        self.waits: dict[Durable, list[int]] = {}  # the places of the notes that were taken, by their commit
        self.missing: dict[str, StrandlineError] = {}  # why no notes of a stream are taken, for the rest of the request
        self._count = count
        self._note_at = note_at
        self._places: dict[tuple[str, str], list[int]] = {}  # by stream and writer; computed when first needed
        self._portion = 0  # the number of the portion that has its turn
        # By stream and writer: the places of the notes that were done before, and when and in which state it was asked.
        self._done: dict[tuple[str, str], tuple[set[int], int, object]] = {}

    def portions(self) -> Iterator[tuple[Sequence[Given], int]]:
        """Each portion, with its work in notes of one key."""
        portion, work = list[Given](), 0
        for place in range(self._count):
            given = self._note_at(place)
            portion.append(given)
            note = given[1]
            work += max(1, len(note.times)) + len(note.position) // NOTE_SEGMENTS if isinstance(note, Note) else 1
            if work >= PORTION_NOTES or place == self._count - 1:
                self._portion += 1
                yield portion, work
                portion, work = [], 0

    def failures(self) -> dict[Durable, StrandlineError]:
        """The errors of the commits that have failed so far."""
        errors = {each: each.exception() for each in self.waits if each.done() and not each.cancelled()}
        return {each: error for each, error in errors.items() if isinstance(error, StrandlineError)}

    def had_done(self, place: int, error: Refused, stream: Stream, now: int) -> bool:
        """Whether the refused note was taken when its request was sent before; see `strandline.core.repetition`.

        The request of before may still be at work, so each portion asks anew if the writer has moved on.
        """
        name, note = self._note_at(place)
        if not isinstance(error, TimeWentBack | PositionWentBack) or not isinstance(note, Note):
            return False
        whose = (name, note.writer)
        done, portion, stored = self._done.get(whose, (set[int](), 0, None))
        if place in done or portion == self._portion or stored == (state := stream.noted_by(note.writer)):
            return place in done
        places = self._places_of(whose)
        notes = [each for each in (self._note_at(number)[1] for number in places) if isinstance(each, Note)]
        done = {places[number] for number in stream.done_before(notes, now)} if notes[1:] else set()
        self._done[whose] = done, self._portion, state
        return place in done

    def _places_of(self, whose: tuple[str, str]) -> list[int]:
        if not self._places:
            for place in range(self._count):
                name, note = self._note_at(place)
                if isinstance(note, Note):
                    self._places.setdefault((name, note.writer), []).append(place)
        return self._places[whose]
