"""Notes: checked and applied one by one, durable together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Generic, TypeVar

import msgspec

from controller.clock import Clock
from controller.commit.group_commit import Committer, Durable
from controller.limits import DEFAULT_LIMITS
from controller.storage.subjects import Kind, Subject
from controller.streams.loaded_stream import LoadedStream
from controller.streams.registry import Streams
from controller.streams.turns import Turn, Turns
from strandline.core.aggregate import Holder
from strandline.core.changes import NoteResult
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import PositionWentBack, Refused, StrandlineError, TimeWentBack, Undecided

Answer = TypeVar("Answer")


class Noted(msgspec.Struct, frozen=True, gc=False):  # five times faster to make than a NamedTuple
    """The answer to a note and, by key, the holder of time if the note led to no mark."""

    answer: NoteResult
    graph: SegmentGraph  # for the cuts of the marks
    held_by: dict[str, Holder]


def as_result(error: StrandlineError) -> StrandlineError:
    """An error that is kept among results, without the frames that it came through: they keep alive all that was at
    work, and with it the results themselves."""
    return error.with_traceback(None)


class Answers(Generic[Answer]):
    """The answers to many notes, before these are durable."""

    __slots__ = ("_answers", "_waits")

    def __init__(self, answers: list[Answer], waits: Mapping[Durable, Sequence[int]]) -> None:
        """`waits` has the places of the notes that were taken, by their commit."""
        self._answers = answers
        self._waits = waits

    async def durable(self, failed: Callable[[StrandlineError], Answer]) -> list[Answer]:
        """The answers, once all commits have ended. Where one failed, `failed` makes the answers to its notes. Raises
        if no note became durable."""
        errors: dict[Durable, StrandlineError] = {}
        for commit in self._waits:
            try:
                await commit
            except StrandlineError as error:
                errors[commit] = error
        if errors and len(errors) == len(self._waits):
            raise next((each for each in errors.values() if isinstance(each, Undecided)), next(iter(errors.values())))
        for failure, of_it in errors.items():
            for place in self._waits[failure]:
                self._answers[place] = failed(of_it)
        return self._answers


class Notes:
    """Takes notes for any stream."""

    def __init__(
        self, streams: Streams, committer: Committer, clock: Clock, *, waiting_bytes: int = DEFAULT_LIMITS.waiting_bytes
    ) -> None:
        self.turns = Turns(waiting_bytes)
        self._streams = streams
        self._committer = committer
        self._clock = clock

    async def take(self, stream: str, note: Note, *, tail: bool = False, by: str | None = None) -> Noted:
        """Takes one note and returns when it is durable. Raises if the note is refused, and changes nothing then.

        `by` is the name of the caller's token, for the journal.
        """
        loaded = self._streams.find_in_turn(stream) or await self._streams.in_turn(stream)
        now = self._clock.now()
        try:
            answer = self._apply(loaded, note, now, tail, by)
        except Refused:
            await self._committer.turn_over()
            raise
        held = {} if answer.marks else _held_by(loaded.stream, note.times, now)
        noted = Noted(answer, loaded.stream.graph, held)
        await self._committer.join(loaded)
        return noted

    async def take_all(
        self,
        pieces: Iterable[Sequence[tuple[str, Note | StrandlineError]]],
        turn: Turn,
        answered: Callable[[int, Sequence[Noted | StrandlineError]], Sequence[Answer]],
        by: str | None = None,
    ) -> Answers[Answer]:
        """Takes many notes in order, each with its stream. A refused note does not affect the others.

        Other calls run between two pieces, so the notes are as separate as if each had come alone. An error in place of
        a note, which could not be decoded, is its own result. `answered` makes the answers to the notes from a place
        on. They may be sent once they are durable: until then, nothing else of the notes need be kept. If a commit
        fails meanwhile, its error is the result of all notes that were not yet checked.
        """
        answers: list[Answer] = []
        request = _ManyNotes(pieces)
        for piece in request.pieces():
            await self._lock(piece, turn, request)
            for stream, run in groupby(piece, key=itemgetter(0)):
                notes, first = [each for _, each in run], len(answers)
                results, durable = self._take_run(stream, notes, by, request, first)
                if durable is not None:
                    taken = [place for place, each in enumerate(results, first) if isinstance(each, Noted)]
                    request.waits.setdefault(durable, []).extend(taken)
                answers += answered(first, results)
        turn.end()
        return Answers(answers, request.waits)

    def _take_run(
        self,
        stream: str,
        notes: Sequence[Note | StrandlineError],
        by: str | None,
        request: _ManyNotes,
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

    async def _lock(self, piece: Sequence[tuple[str, Note | StrandlineError]], turn: Turn, request: _ManyNotes) -> None:
        """Returns when it is the turn of this request, and of calls about the streams of a piece. Why a stream is
        missing then is in the request."""
        names = dict.fromkeys(stream for stream, each in piece if isinstance(each, Note))
        while True:
            failed = request.failure()
            if failed is not None:
                request.missing.update((name, failed) for name in names if name not in request.missing)
            wanted = [name for name in names if name not in request.missing]
            cold = [name for name in wanted if self._streams.find_loaded(name) is None]
            if cold:
                turn.end()
                loads = await asyncio.gather(*map(self._streams.get, cold), return_exceptions=True)
                for name, error in zip(cold, loads, strict=True):
                    if isinstance(error, StrandlineError):
                        request.missing[name] = as_result(error)
                    elif isinstance(error, BaseException):
                        raise error
                continue
            await self._committer.room()
            subjects = [Subject(Kind.STREAM, name) for name in wanted]
            if not self._committer.is_turn(*subjects):
                turn.end()
                try:
                    await self._committer.turn(*subjects)
                except StrandlineError as error:
                    request.missing.update((name, as_result(error)) for name in wanted)
                    continue
            with self._committer.expecting():
                await turn.next()
            if all(self._streams.find_in_turn(name) is not None for name in wanted):
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
        request: _ManyNotes,
        first: int,
    ) -> tuple[list[Noted | StrandlineError], Durable | None]:
        """Takes notes of a stream that is loaded, one after the other.

        Their answers tell who holds time back after the last of them: what held it in between is over.
        """
        now, graph = self._clock.now(), loaded.stream.graph
        results: list[Noted | StrandlineError] = []
        held: dict[tuple[str, ...], dict[str, Holder]] = {}  # by keys; each is filled at the end
        taken, durable = 0, None
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
                results.append(Noted(answer, graph, of_keys))
        finally:
            if taken:
                durable = self._committer.join(loaded, taken)
        for keys, of_keys in held.items():
            of_keys.update(_held_by(loaded.stream, keys, now))
        return results, durable

    def _apply(
        self,
        loaded: LoadedStream,
        note: Note,
        now: int,
        tail: bool,
        by: str | None,
        request: _ManyNotes | None = None,
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


class _ManyNotes:
    """The notes of one request, a piece at a time, and what became of those before. The request may be a repeat of one
    whose answer was lost."""

    __slots__ = ("_ahead", "_coming", "_done", "_notes", "_piece", "_places", "missing", "waits")

    def __init__(self, pieces: Iterable[Sequence[tuple[str, Note | StrandlineError]]]) -> None:
        self.waits: dict[Durable, list[int]] = {}  # the places of the notes that were taken, by their commit
        self.missing: dict[str, StrandlineError] = {}  # why no notes of a stream are taken, for the rest of the request
        self._coming = iter(pieces)
        self._notes: list[tuple[str, Note | StrandlineError]] = []  # of all pieces read so far
        self._ahead: deque[Sequence[tuple[str, Note | StrandlineError]]] = deque()  # pieces read before their turn
        self._places: dict[tuple[str, str], list[int]] = {}  # by stream and writer; computed when first needed
        self._piece = 0  # the number of the piece that has its turn
        # By stream and writer: the places of the notes that were done before, and when and in which state it was asked.
        self._done: dict[tuple[str, str], tuple[set[int], int, object]] = {}

    def pieces(self) -> Iterator[Sequence[tuple[str, Note | StrandlineError]]]:
        """Yields the pieces, and reads each when it is needed."""
        while True:
            if self._ahead:
                self._piece += 1
                yield self._ahead.popleft()
            elif not self._read_piece():
                return

    def failure(self) -> StrandlineError | None:
        """The error of a commit that failed; None if none has so far."""
        for wait in self.waits:
            error = wait.exception() if wait.done() and not wait.cancelled() else None
            if isinstance(error, StrandlineError):
                return error
        return None

    def had_done(self, place: int, error: Refused, stream: Stream, now: int) -> bool:
        """Whether the refused note was taken when its request was sent before; see `strandline.core.repetition`.

        The request of before may still be at work, so each piece asks anew if the writer has moved on.
        """
        name, note = self._notes[place]
        if not isinstance(error, TimeWentBack | PositionWentBack) or not isinstance(note, Note):
            return False
        whose = (name, note.writer)
        done, piece, stored = self._done.get(whose, (set[int](), 0, None))
        if place in done or piece == self._piece or stored == (state := stream.noted_by(note.writer)):
            return place in done
        places = self._places_of(whose)
        notes = [each for each in (self._notes[number][1] for number in places) if isinstance(each, Note)]
        done = {places[number] for number in stream.done_before(notes, now)} if notes[1:] else set()
        self._done[whose] = done, self._piece, state
        return place in done

    def _places_of(self, whose: tuple[str, str]) -> list[int]:
        if not self._places:
            while self._read_piece():
                pass
            for number, (name, note) in enumerate(self._notes):
                if isinstance(note, Note):
                    self._places.setdefault((name, note.writer), []).append(number)
        return self._places[whose]

    def _read_piece(self) -> bool:
        """Reads the next piece; False if there is none."""
        piece = next(self._coming, None)
        if piece is None:
            return False
        self._notes += piece
        self._ahead.append(piece)
        return True
