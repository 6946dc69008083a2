"""What `strandline relay` does: reads records, asks where each stream's topic ends, and notes.

The ends are asked after the records were read. A producer sends a record when everything before it is acknowledged, so
all of that lies below these ends: nobody has to count offsets. A writer is registered before anything is noted for it,
so that a relay which was stopped for a while, and whose records another one has read since, is fenced.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from controller.cli.client import ControllerClient
from controller.cli.relay.measures import RelayMeasures
from controller.cli.relay.owed import Book, Owed, Whose
from controller.cli.relay.records import Leaving, NotANote, read_record
from controller.cli.relay.topic import NotesTopic, Record
from controller.terminal import remark
from controller.wording import span
from strandline.client import calls
from strandline.core.changes import Registered
from strandline.core.note import DEFAULT_KEY, Note
from strandline.errors import (
    Fenced,
    PositionWentBack,
    Refused,
    StrandlineError,
    TimeWentBack,
    UnknownStream,
    UnknownWriter,
)
from strandline.limits import NOTES_PER_REQUEST
from strandline.logs import Position
from strandline.logs.errors import TopicMissing

REGISTERED_TOGETHER: Final = 8
PAUSE_S: Final = 0.5  # after a round in which somebody was away
PARKED_S: Final = 5.0  # between two tries for a stream, or its topic, that is not there
UNSTORED_SAID: Final = 50  # as many commits fail during a rebalance
SAID_AGAIN_S: Final = 60.0  # between two lines about the same trouble


class Relay:
    """Relays until it is told to end."""

    def __init__(
        self,
        client: ControllerClient,
        records: NotesTopic,
        ends: Callable[[str], Position],
        measures: RelayMeasures,
    ) -> None:
        """`ends` gives where the topic of a stream ends; it raises TopicMissing and LogUnavailable."""
        self._client = client
        self._records = records
        self._ends = ends
        self._measures = measures
        self._threads = ThreadPoolExecutor(REGISTERED_TOGETHER, "register")
        self._book = Book()
        self._epochs: dict[Whose, int] = {}
        self._ahead: set[Whose] = set()  # whose times were far ahead of the clock, which was said
        self._came_in: dict[Whose, int] = {}  # the partition of a writer's last record
        self._committed: dict[int, int] = {}
        self._later: dict[str, float] = {}  # streams that are not there, and when they are tried again
        self._said: dict[str, float] = {}
        self._is_member = True
        self._unstored = 0  # commits in a row that the group has not taken

    def run(self) -> None:
        while True:
            if not self.round():
                time.sleep(PAUSE_S)

    def round(self) -> bool:
        """Reads, and notes what can be noted. Returns whether nobody was away."""
        taken = self._records.take()
        gone = self._records.gone()
        if gone:  # before what is taken: a partition may be here again, from where the group has come to
            self._book.drop(gone)
            self._forget(whose for whose, partition in self._came_in.items() if partition in gone)
            self._committed = {each: offset for each, offset in self._committed.items() if each not in gone}
        for each in taken:
            self._take(each)
        reached = True
        if self._is_member:
            for stream, owed in self._book.due(self._records.is_read).items():
                if time.monotonic() >= self._later.get(stream, 0.0):
                    reached = self._relay(stream, owed) and reached
        self._commit()
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
            self._say(f"{where} is no note, and is passed over: {error}")
            return
        back = self._book.take(record.partition, record.offset, said)
        self._came_in[Whose(said.stream, said.writer)] = record.partition
        if back:
            self._measures.counted("went_back")
            self._say(
                f"{where}: the time of {said.writer} in {said.stream} went back, which counts for nothing: {back}"
            )

    def _commit(self) -> None:
        offsets = {
            each: offset for each, offset in self._book.committable(self._records.positions).items() if offset >= 0
        }
        if offsets != self._committed or not self._is_member:
            self._is_member = self._records.commit(offsets)
            if self._is_member:
                self._committed, self._unstored = offsets, 0
            else:
                self._unstored += 1
                if self._unstored % UNSTORED_SAID == 0:
                    self._say("the group does not take where it has come to, so nothing is noted; it is tried again")

    # -- notes ---------------------------------------------------------------------------------------------------

    def _relay(self, stream: str, owed: Mapping[str, Owed]) -> bool:
        """Notes what is owed to writers of a stream. Returns whether nobody was away."""
        try:
            ends = self._ends(stream)
            writers = list(owed)
            for first in range(0, len(writers), NOTES_PER_REQUEST):
                some = writers[first : first + NOTES_PER_REQUEST]
                self._note(stream, {each: owed[each] for each in some}, ends)
        except (UnknownStream, TopicMissing) as error:
            self._later[stream] = time.monotonic() + PARKED_S
            self._book.park(stream)
            self._say(f"{stream}: {self._client.explain(error)}; what its writers said last is kept until it is there")
        except StrandlineError as error:
            self._say(f"{stream}: {self._client.explain(error)}; it is tried again")
            return False
        else:
            self._later.pop(stream, None)
        return True

    def _note(self, stream: str, owed: Mapping[str, Owed], ends: Position) -> None:
        self._register({Whose(stream, writer): each for writer, each in owed.items()})
        known = {writer: each for writer, each in owed.items() if Whose(stream, writer) in self._epochs}
        if not known:
            return
        notes = [
            Note(writer=writer, times=each.times, position=ends, epoch=self._epochs[Whose(stream, writer)])
            for writer, each in known.items()
        ]
        results = self._client.run(calls.notes(stream, notes))
        for (writer, each), result in zip(known.items(), results, strict=True):
            whose = Whose(stream, writer)
            if not isinstance(result, StrandlineError):
                self._measures.counted("late" if result.late else "noted")
                self._check_ahead(whose, result.ahead_ms)
            elif not self._goes_on(whose, result):
                continue
            if each.leaving is None or self._leave(whose, each.leaving):
                self._book.settle(whose)

    def _check_ahead(self, whose: Whose, ahead_ms: Mapping[str, int]) -> None:
        """Says once when the times of a writer begin to be far ahead of the controller's clock."""
        if ahead_ms and whose not in self._ahead:
            by = span(max(ahead_ms.values()))
            self._say(
                f"{whose.stream}: the time of {whose.writer} is {by} ahead of the controller's clock: look at the "
                f"clock of {whose.writer}"
            )
            self._ahead.add(whose)
        elif not ahead_ms:
            self._ahead.discard(whose)

    def _register(self, owed: Mapping[Whose, Owed]) -> None:
        """Registers those writers for which nothing was noted yet, several at a time."""

        def ask(whose: Whose) -> Registered | StrandlineError:
            times = owed[whose].times
            keys = [] if times.keys() <= {DEFAULT_KEY} else list(times)
            try:
                return self._client.run(calls.register(*whose, keys))
            except StrandlineError as error:
                return error

        new = [whose for whose in owed if whose not in self._epochs]
        for whose, found in zip(new, self._threads.map(ask, new), strict=True):
            if isinstance(found, Registered):
                self._epochs[whose] = found.epoch
                if any(found.noted.get(key, time) > time for key, time in owed[whose].times.items()):
                    owed[whose].leaving = None  # it has moved on since, and did not leave after that
            elif isinstance(found, Refused) and not isinstance(found, UnknownStream):
                self._refuse(whose, found)
            else:
                raise found

    def _goes_on(self, whose: Whose, error: StrandlineError) -> bool:
        """Whether what was refused needs no further note: it was noted before."""
        match error:
            case TimeWentBack() | PositionWentBack():
                self._measures.counted("repeated")
                return True
            case Fenced() | UnknownWriter():
                self._epochs.pop(whose, None)
                self._is_member = False  # until a commit shows that it is: another relay may have its partition
                return False
            case Refused() if not isinstance(error, UnknownStream):
                self._refuse(whose, error)
                return False
            case _:
                raise error

    def _leave(self, whose: Whose, leaving: Leaving) -> bool:
        call = calls.idle if leaving is Leaving.IDLE else calls.close
        try:
            self._client.run(call(*whose, self._epochs[whose]))
        except Refused as error:
            return self._goes_on(whose, error)
        self._measures.counted(leaving.value)
        if leaving is Leaving.CLOSE:
            self._forget([whose])
        return True

    def _refuse(self, whose: Whose, error: StrandlineError) -> None:
        self._measures.counted("refused")
        self._say(f"{whose.stream}: what {whose.writer} said is refused: {self._client.explain(error)}")
        self._book.settle(whose)

    def _forget(self, writers: Iterable[Whose]) -> None:
        for whose in list(writers):
            self._ahead.discard(whose)
            self._epochs.pop(whose, None)
            self._came_in.pop(whose, None)

    def _say(self, text: str) -> None:
        """A line on standard error; the same one not more often than once a minute."""
        now = time.monotonic()
        if now - self._said.get(text, -SAID_AGAIN_S) < SAID_AGAIN_S:
            return
        if len(self._said) > NOTES_PER_REQUEST:
            self._said.clear()
        self._said[text] = now
        remark(f"strandline relay: {text}")
