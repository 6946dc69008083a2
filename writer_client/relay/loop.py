"""What `strandline relay` does: reads records, asks where each stream's topic ends, and notes.

    read ─► commit ─► register ─► commit ─► ask the ends ─► note ─► idle, close

The ends are asked after the records were read. A producer sends a record when everything before it is acknowledged, so
all of that lies below these ends: nobody has to count offsets.

Another relay may take a partition over at any moment, as from one that hangs. A commit that the group takes shows that
it has not yet.

- The first commit: whoever takes over after it reads all that this relay has read, before it notes anything. So what
  is noted here is not older than what others noted, and an idle of old is not said again.
- The second one: a registration fences those before it. Nobody else had the partition when this relay registered, and
  who takes it over later registers later, and fences this one. A registration without that commit is not used.

A registration that is not used holds time back until the writer's next record, since the relay that has the partition
registers it again then. An idle writer is registered again before its next note, as every writer that comes back: a
note that repeats its time would not bring it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final, Protocol, TypeVar

from strandline.client import calls
from strandline.client.calls import Call
from strandline.core.changes import Registered
from strandline.core.note import Note
from strandline.errors import (
    Fenced,
    PositionWentBack,
    Refused,
    StoreCorrupt,
    StrandlineError,
    StreamLoading,
    TimeWentBack,
    UnknownStream,
    UnknownWriter,
)
from strandline.limits import BODY_BYTES, NOTES_PER_REQUEST
from strandline.logs import Position
from strandline.logs.errors import LogUnavailable, TopicMissing
from writer_client.relay.lines import Lines
from writer_client.relay.measures import RelayMeasures
from writer_client.relay.owed import Book, Due, Owed, Whose, in_turn
from writer_client.relay.records import Leaving, NotANote, read_record
from writer_client.relay.topic import NotesTopic, Record

Value = TypeVar("Value")

OF_ONE_STREAM: Final = (Refused, StoreCorrupt, StreamLoading, LogUnavailable)  # errors that others do not share
CALLED_TOGETHER: Final = 8  # registrations, and calls by which writers leave
REGISTERED_AT_ONCE: Final = 256  # in a round, so that those who are registered do not wait for others
STREAMS_AT_ONCE: Final = 16  # of those that may not be there
EPOCHS_KEPT: Final = 250_000  # of writers that were registered; one of more is registered again
NOTE_BYTES: Final = 100  # at most, of a note without what follows
SEGMENT_BYTES: Final = 26  # of a partition's number, its offset, and the signs between
TIME_BYTES: Final = 22  # of a time, and the signs between
PAUSE_S: Final = 0.5  # after a round in which somebody was away
REFUSED_COMMITS: Final = 50  # in a row; as many fail during a rebalance


def fitting(times: Mapping[str, dict[str, int]], segments: int) -> dict[str, dict[str, int]]:
    """The first writers, with their times, whose notes fit into a request; one at least."""
    found: dict[str, dict[str, int]] = {}
    left = BODY_BYTES
    for writer, by_key in islice(times.items(), NOTES_PER_REQUEST):
        left -= NOTE_BYTES + len(writer) + segments * SEGMENT_BYTES + sum(len(key) + TIME_BYTES for key in by_key)
        if left < 0 and found:
            break
        found[writer] = by_key
    return found


class Away(Exception):
    """Nobody can be asked now: the rest of a round waits. Its cause is the error."""


class Calls(Protocol):
    """A connection."""

    def run(self, call: Call[Value]) -> Value: ...


class Relay:
    """Relays until it is told to end."""

    def __init__(
        self,
        connection: Calls,
        explain: Callable[[StrandlineError], str],
        records: NotesTopic,
        ends: Callable[[Collection[str]], Mapping[str, Position | StrandlineError]],
        measures: RelayMeasures,
        lines: Lines,
    ) -> None:
        """`explain` says what a person can do about an error; `ends` gives where topics of streams end, or why that is
        not known."""
        self._connection = connection
        self._explain = explain
        self._records = records
        self._ends = ends
        self._measures = measures
        self._say = lines.say
        self._threads = ThreadPoolExecutor(CALLED_TOGETHER, "call")
        self._book = Book()
        self._epochs: dict[Whose, int] = {}
        self._there: set[str] = set()  # streams in which a writer was registered
        self._committed: dict[int, int] = {}
        self._refused_commits = 0  # in a row

    def run(self) -> None:
        while True:
            if not self.round():
                time.sleep(PAUSE_S)

    def round(self) -> bool:
        """Reads, and notes what can be noted. Returns whether nobody was away."""
        taken = self._records.take()
        if gone := self._records.gone():  # before what is taken: a partition may be here again
            self._book.drop(gone)
            self._committed = {}
        for each in taken:
            self._take(each)
        due = self._book.due(self._records.is_read)
        reached = True
        if self._commit(shows=bool(due)):
            reached = self._relay(due)
        self._measures.behind(self._records.behind(), len(self._book))
        return reached

    # -- records -------------------------------------------------------------------------------------------------

    def _take(self, record: Record) -> None:
        self._measures.counted("records")
        where = f"{self._records.name}, partition {record.partition}, offset {record.offset}"
        try:
            said = read_record(record.value)
        except NotANote as error:
            self._measures.counted("not_a_note")
            self._say((NotANote, record.partition), f"{where} is no note, and is passed over: {error}")
            return
        whose = Whose(said.stream, said.writer)
        if not self._book.has_room(whose):
            self._measures.counted("no_room")
            self._say("no room", f"{where}: {len(self._book)} writers wait for their notes, and no more are kept")
            return
        back = self._book.take(record.partition, record.offset, said)
        if back:
            self._measures.counted("went_back")
            text = f"{where}: ignored a time of {whose.writer} in {whose.stream} that is below one before it: {back}"
            self._say(("back", said.stream), text)

    def _commit(self, *, shows: bool) -> bool:
        """Tells the group up to where nobody has to read again. Returns whether it counts this relay; without `shows`
        it is asked only if there is news."""
        found = self._book.committable(self._records.positions)
        offsets = {partition: offset for partition, offset in found.items() if offset >= 0}
        if offsets == self._committed and not shows:
            return True
        if self._records.commit(offsets):
            self._committed, self._refused_commits = offsets, 0
            return True
        self._refused_commits += 1
        if self._refused_commits % REFUSED_COMMITS == 0:
            self._say("group", "the group does not take where it has come to, so nothing is noted; it is tried again")
        return False

    # -- notes ---------------------------------------------------------------------------------------------------

    def _relay(self, due: Due) -> bool:
        """Notes what is due to writers. Returns whether nobody was away."""
        try:
            if self._register(due):
                known = {
                    stream: {writer: each for writer, each in owed.items() if Whose(stream, writer) in self._epochs}
                    for stream, owed in due.items()
                }
                for stream, position in self._ends([stream for stream, owed in known.items() if owed]).items():
                    if isinstance(position, StrandlineError):
                        self._fail(stream, position)
                    else:
                        self._note(stream, known[stream], position)
        except Away:
            return False
        return True

    def _register(self, due: Due) -> bool:
        """Registers some of those writers that are not, and one in each of some streams that may not be there. Returns
        whether the group counted this relay after that."""
        new = {
            stream: [each for each in owed if (stream, each) not in self._epochs]
            for stream, owed in due.items()
            if stream in self._there
        }
        for stream in islice((each for each in due if each not in self._there), STREAMS_AT_ONCE):
            new[stream] = list(islice(due[stream], 1))

        def register(whose: Whose) -> Call[Registered]:
            return calls.register(*whose, due[whose.stream][whose.writer].times)

        found: dict[Whose, int] = {}
        for whose, answer in self._call_each(islice(in_turn(new), REGISTERED_AT_ONCE), register):
            if isinstance(answer, Registered):
                found[whose] = answer.epoch
                self._there.add(whose.stream)
            else:
                self._refuse(whose, answer)
        if found and not self._commit(shows=True):
            return False
        self._epochs |= found
        for whose in list(islice(self._epochs, max(0, len(self._epochs) - EPOCHS_KEPT))):
            del self._epochs[whose]
        return True

    def _note(self, stream: str, owed: Mapping[str, Owed], position: Position) -> None:
        """Notes what is owed to writers of a stream, and then lets those leave whose position was taken."""
        left = {writer: dict(owed[writer].times) for writer in owed}
        accepted: list[Whose] = []
        while left:
            some = fitting(left, len(position))
            notes = [
                Note(writer=writer, times=times, position=position, epoch=self._epochs[Whose(stream, writer)])
                for writer, times in some.items()
            ]
            try:
                results = self._connection.run(calls.notes(stream, notes))
            except StrandlineError as error:
                self._fail(stream, error)
                break
            for (writer, times), result in zip(some.items(), results, strict=True):
                if isinstance(result, TimeWentBack):
                    self._measures.counted("repeated")
                    del times[result.key]  # the other keys are noted, or the position alone
                    continue
                del left[writer]
                whose = Whose(stream, writer)
                if isinstance(result, StrandlineError):
                    self._refuse(whose, result)
                    continue
                self._measures.counted("late" if result.late else "noted")
                self._check_ahead(whose, result.ahead_ms)
                accepted.append(whose)
        self._leave({whose: owed[whose.writer].leaving for whose in accepted})

    def _leave(self, accepted: Mapping[Whose, Leaving | None]) -> None:
        leaving = {whose: each for whose, each in accepted.items() if each is not None}
        epochs = {whose: self._epochs.pop(whose) for whose in leaving}

        def leave(whose: Whose) -> Call[None]:
            call = calls.idle if leaving[whose] is Leaving.IDLE else calls.close
            return call(*whose, epochs[whose])

        for whose in accepted.keys() - leaving.keys():
            self._book.settle(whose)
        for whose, error in self._call_each(leaving, leave):
            if error is None:
                self._measures.counted(leaving[whose].value)
                self._book.settle(whose)
            else:
                self._refuse(whose, error)

    def _call_each(
        self, writers: Iterable[Whose], call: Callable[[Whose], Call[Value]]
    ) -> Iterator[tuple[Whose, Value | StrandlineError]]:
        """Makes a call for each writer, several at a time; none any more when nobody can be asked."""
        away: list[StrandlineError] = []

        def ask(whose: Whose) -> Value | StrandlineError:
            if away:
                return away[0]
            try:
                return self._connection.run(call(whose))
            except StrandlineError as error:
                if not isinstance(error, OF_ONE_STREAM):
                    away.append(error)
                return error

        asked = list(writers)
        return zip(asked, self._threads.map(ask, asked), strict=True)

    def _check_ahead(self, whose: Whose, ahead_ms: Mapping[str, int]) -> None:
        if ahead_ms:
            ahead = f"{max(ahead_ms.values()) / 1000:,.0f} s ahead of the controller's clock"
            text = f"{whose.stream}: the time of {whose.writer} is {ahead}: look at the clock of {whose.writer}"
            self._say(("ahead", *whose), text)

    # -- what is not noted ---------------------------------------------------------------------------------------

    def _refuse(self, whose: Whose, error: StrandlineError) -> None:
        """What is owed to a writer was refused: for good, or with its present registration."""
        if isinstance(error, Fenced | UnknownWriter):
            self._epochs.pop(whose, None)
            return
        if isinstance(error, UnknownStream) or not isinstance(error, Refused):
            self._fail(whose.stream, error)
            return
        text = f"{whose.stream}: the note of {whose.writer} is refused: {self._explain(error)}"
        if isinstance(error, PositionWentBack):
            text = (
                f"{whose.stream}: the note of {whose.writer} is refused, since its topic ends below what was noted "
                f"(segment {error.segment}: {error.offset}, noted {error.stored_offset}): if the topic was created "
                f"again, or lost its end, delete the stream and create it again"
            )
        self._measures.counted("refused")
        self._say((error.code, whose.stream), text)
        self._book.settle(whose)

    def _fail(self, stream: str, error: StrandlineError) -> None:
        """Nothing can be noted in a stream: it or its topic is not there, and nothing is kept for it; or it is tried
        again. Raises Away if that is so in every stream."""
        if not isinstance(error, UnknownStream | TopicMissing):
            self._say((error.code, stream), f"{stream}: {self._explain(error)}; it is tried again")
            if not isinstance(error, OF_ONE_STREAM):
                raise Away from error
            return
        self._there.discard(stream)
        if count := self._book.drop_stream(stream):
            self._measures.counted("missing", count)
            why = f"there is no stream {stream!r}: create it" if isinstance(error, UnknownStream) else str(error)
            kept = f"notes of {count} writers are not kept, later ones find it when it is there"
            self._say((error.code, stream), f"{stream}: {why}; {kept}")
