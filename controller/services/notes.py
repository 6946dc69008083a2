"""Notes: judged one after the other, durable together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from controller.services.clock import Clock
from controller.services.commits import Committer, Durable
from controller.services.journal import tell_refused
from controller.services.live import Live
from controller.services.streams import Streams
from strandline.aggregate import Holder
from strandline.changes import Answer
from strandline.errors import PositionWentBack, Refused, StrandlineError, TimeWentBack
from strandline.note import Note
from strandline.segment import SegmentGraph
from strandline.stream import Stream


class Noted(NamedTuple):
    """An answer to a note, and by key who holds time back where the note brought about no mark."""

    answer: Answer
    held_by: dict[str, Holder]
    graph: SegmentGraph  # for the cuts of the marks


class Notes:
    """Takes notes for any stream."""

    def __init__(self, streams: Streams, committer: Committer, clock: Clock) -> None:
        self._streams = streams
        self._committer = committer
        self._clock = clock

    async def take(self, stream: str, note: Note, *, tail: bool = False, by: str | None = None) -> Noted:
        """One note: answered when it is durable; raises what refuses it, with nothing changed.

        `by` is the name of the caller's token, for the journal.
        """
        live = self._streams.at_hand(stream) or await self._streams.get(stream)
        self._committer.admit()
        noted = self._apply(live, note, tail, by)
        await self._streams.touch(live)
        return noted

    async def take_all(
        self, notes: Sequence[tuple[str, Note | StrandlineError]], by: str | None = None
    ) -> list[Noted | StrandlineError]:
        """Many, each with its stream, in order: each is judged after the ones before it, and harms no other.

        What could not even be made into a note stands for itself. Raises Overloaded or StoreUnavailable for all.
        """
        self._committer.admit(len(notes))
        results: list[Noted | StrandlineError] = []
        waits: set[Durable] = set()
        request = _Request(notes)
        for place, (stream, note) in enumerate(notes):
            if isinstance(note, StrandlineError):
                self.tell_malformed(stream, note, by)
                results.append(note)
                continue
            try:
                live = self._streams.at_hand(stream) or await self._streams.get(stream)
                results.append(self._apply(live, note, False, by, request, place))
            except StrandlineError as error:
                results.append(error)
            else:
                waits.add(self._streams.touch(live))
        for wait in waits:
            await wait
        return results

    def tell_malformed(self, stream: str, error: StrandlineError, by: str | None) -> None:
        """What came for a stream could not even be made into a note, and its journal tells of that.

        A stream that is not in memory is not loaded for it, and many callers' bodies say not even which one they mean.
        """
        live = self._streams.at_hand(stream)
        if live is None or not isinstance(error, Refused):
            return
        live.counts.refuse(error.code)
        if live.journal.refuse(error, self._clock.now(), by=by):
            self._committer.keep(live)
            tell_refused("stream", stream, error)

    def _apply(
        self, live: Live, note: Note, tail: bool, by: str | None, request: _Request | None = None, place: int = 0
    ) -> Noted:
        now = self._clock.now()
        try:
            answer = live.stream.note(note, now, tail=tail)
        except Refused as error:
            if request is not None and request.had_done(place, error, live.stream, now):
                return self._noted(live, note, Answer(False, dict.fromkeys(note.times), ()), now)
            live.counts.refuse(error.code, note.writer)
            if live.journal.refuse(error, now, by=by, writer=note.writer):
                self._committer.keep(live)
                tell_refused("stream", live.name, error, writer=note.writer)
            raise
        return self._noted(live, note, answer, now)

    def _noted(self, live: Live, note: Note, answer: Answer, now: int) -> Noted:
        live.counts.notes += 1
        if answer.late:
            live.counts.late(note.writer)
        for segment in note.position:
            live.noted_at[segment] = now
        held: dict[str, Holder] = {}
        if not answer.marks:
            for key in note.times:
                holder = live.stream.held_by(key, now)
                if holder is not None:
                    held[key] = holder
        return Noted(answer, held, live.stream.graph)


class _Request:
    """The notes of one request, which may have been sent before: then the answer to it was lost."""

    __slots__ = ("_done", "_notes", "_places")

    def __init__(self, notes: Sequence[tuple[str, Note | StrandlineError]]) -> None:
        self._notes = notes
        self._places: dict[tuple[str, str], list[int]] = {}  # by stream and writer; worked out when first asked
        self._done: dict[tuple[str, str], set[int]] = {}

    def had_done(self, place: int, error: Refused, stream: Stream, now: int) -> bool:
        """Whether the refused note was done when its request was sent before; see `strandline.repetition`."""
        name, note = self._notes[place]
        if not isinstance(error, TimeWentBack | PositionWentBack) or not isinstance(note, Note):
            return False
        whose = (name, note.writer)
        if whose not in self._done:
            places = self._places_of(whose)
            notes = [each for each in (self._notes[number][1] for number in places) if isinstance(each, Note)]
            self._done[whose] = {places[number] for number in stream.done_before(notes, now)} if notes[1:] else set()
        return place in self._done[whose]

    def _places_of(self, whose: tuple[str, str]) -> list[int]:
        if not self._places:
            for number, (name, note) in enumerate(self._notes):
                if isinstance(note, Note):
                    self._places.setdefault((name, note.writer), []).append(number)
        return self._places[whose]
