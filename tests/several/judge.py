"""What must hold, whatever happens: of each commit, and of each answer, as its caller has it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from controller.groups.loaded_group import LoadedGroup
from controller.storage import schema
from controller.storage.groups import StoredGroup, load_group
from controller.storage.heads import Head, compare
from controller.storage.load import StoredStream, read_stream
from controller.storage.marks import StoredMarks
from controller.storage.save import Commit
from controller.storage.subjects import Kind, Subject
from controller.storage.tokens import changed_tokens, list_tokens
from controller.streams.loaded_stream import LoadedStream
from controller.streams.standing import standing_text
from controller.tokens import Tokens
from strandline.core.mark import Mark
from strandline.core.served_time import SERVED_GAP_MS, Unserved
from strandline.errors import Unauthenticated
from strandline.wire.groups import GroupWindow
from tests.several.caches import facts_of
from tests.several.server import Server

WRITER_TIMEOUT_MS = 3_000
SLACK_MS = 600  # of the clocks of several controllers, which follow the server's


class Broken(AssertionError):
    """A promise is not kept."""


class NotedAt(NamedTuple):
    """What a writer noted, and after how many commits that was answered."""

    commits: int
    time: int
    offset: int


@dataclass
class Facts:
    """What was answered; each with the number of commits then."""

    marks: dict[tuple[str, str], list[tuple[int, Mark]]] = field(default_factory=dict)  # by identity and key
    notes: dict[tuple[str, str], list[NotedAt]] = field(default_factory=dict)  # by identity and writer, on time
    answered: dict[tuple[str, str], list[NotedAt]] = field(default_factory=dict)
    epochs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # by stream
    told: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # by group and key, watermarks

    def forget_after(self, commits: int, *, keeps_epochs: bool) -> None:
        for name, facts in vars(self).items():
            if not (name == "epochs" and keeps_epochs):
                for each in facts.values():
                    each[:] = [fact for fact in each if fact[0] <= commits]


class Judge:
    def __init__(self, server: Server) -> None:
        self._server = server
        server.witness = self
        self.facts = Facts()
        self.counts = Counter[str]()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.went_back_at = -1.0  # when the store lost commits last
        self.moves = Counter[str]()  # how often the store lost commits, and streams were deleted
        self.lives: set[tuple[str, int, int]] = set()  # identity, version and stamp of all heads that the store had
        self.heard: dict[tuple[str, str], float] = {}  # by stream and writer: since then it was heard, at the earliest
        self.excluded: set[tuple[str, str]] = set()  # by an operator
        self.gaps: list[tuple[float, float]] = []  # when no controller ran
        self.deleted_at: dict[str, float] = {}  # by identity, when that was answered
        self.ended_at = -1.0  # when a stream or a group was deleted last
        self.tokens: dict[str, bytes] = {}  # by name, all that were ever made

    def must(self, holds: bool, what: object) -> None:
        if not holds:
            self.fail(Broken(f"at {asyncio.get_running_loop().time():.3f}: {what}"))

    def fail(self, error: BaseException) -> NoReturn:
        """Ends the history: whoever catches the error does not hide it."""
        if not self.failed.done():
            self.failed.set_exception(error)
        raise error

    # -- the store -----------------------------------------------------------------------------------------------

    def stored(self, name: str, unserved: Unserved | None = None) -> StoredStream | None:
        return read_stream(self._server.connection, lambda: None, name, unserved or Unserved())

    def stored_group(self, name: str) -> StoredGroup | None:
        return load_group(self._server.connection, name)

    def heads(self, subjects: Iterable[Subject]) -> Mapping[Subject, Head]:
        with self._server.connection.begin():
            return compare(self._server.connection, list(subjects))

    def identity(self, stream: str) -> str | None:
        head = self.heads([Subject(Kind.STREAM, stream)]).get(Subject(Kind.STREAM, stream))
        return None if head is None else head.identity

    def committed(self, commit: Commit) -> None:
        self.counts["commits"] += 1
        for values in commit.put.get(schema.head, []):
            if values["kind"] == Kind.STREAM.value:
                self.lives.add((values["identity"], values["version"], values["stamp"]))
        for _, name in commit.deleted:
            self.moves[name] += 1
            self.ended_at = asyncio.get_running_loop().time()
        for values in commit.added.get(schema.mark, []):
            with self._server.connection.begin():
                stored = StoredMarks(self._server.connection, values["stream"], values["key"])
                (mark,) = stored.between(values["seq"], values["seq"])
            self._marked(values["stream"], mark)

    def _marked(self, stream: str, mark: Mark) -> None:
        identity = self.identity(stream)
        assert identity is not None
        marks = self.facts.marks.setdefault((identity, mark.key), [])
        self.must(mark.seq == len(marks) + 1, f"{stream}: mark {mark.seq} follows {len(marks)}")
        self.must(not marks or marks[-1][1].time < mark.time, f"{stream}: time went back at {mark}")
        marks.append((self._server.commits, mark))
        self.counts["marks"] += 1
        for name in mark.excluded:
            self.counts["marks, incomplete"] += 1
            self.facts.notes.pop((identity, name), None)
            if (stream, name) not in self.excluded and (stream, name) in self.heard:
                silent_ms = self.silent_ms(stream, name)
                self.must(
                    silent_ms >= WRITER_TIMEOUT_MS - SLACK_MS,
                    f"{name} of {stream} timed out after {silent_ms} ms: {mark}",
                )
        for (of, writer), notes in self.facts.notes.items():
            if of == identity:
                for before, after in pairwise(notes):
                    self._fits(mark, writer, before, after)

    def silent_ms(self, stream: str, name: str) -> int:
        """For how long it was not heard, at most, while somebody served."""
        since, now = self.heard[stream, name], asyncio.get_running_loop().time()
        gaps = sum(max(0.0, end - max(since, begin)) for begin, end in self.gaps if end - begin > SERVED_GAP_MS / 1000)
        return round((now - since - gaps) * 1000)

    def _fits(self, mark: Mark, writer: str, before: NotedAt, after: NotedAt) -> None:
        """The first event after a note has its time, and is older than the mark only below its cut."""
        if before.time < mark.time and before.offset < after.offset:
            segment = writer.rpartition("-")[2]
            self.must(
                mark.cut.offset(segment) > before.offset,
                f"{mark} passes an event of {writer} at {before.offset} of time {before.time}",
            )

    def went_back(self, commits: int, *, restored: bool) -> None:
        self.went_back_at = asyncio.get_running_loop().time()
        self.facts.forget_after(commits, keeps_epochs=restored)
        self.facts.notes.clear()  # of what follows a lost note it is not known from which time on it is
        self.moves[""] += 1
        self.counts["restored" if restored else "failed over"] += 1
        self.heard.clear()
        with self._server.connection.begin():
            rows = self._server.connection.execute(schema.head.select()).all()
        # What others have of lost commits is on another history from now on.
        self._lost_versions(rows)

    def _lost_versions(self, rows: Iterable[Any]) -> None:
        newest = {row.identity: row.version for row in rows}
        stamps = {row.identity: row.stamp for row in rows}
        self.lives = {each for each in self.lives if each[1] < newest.get(each[0], 0)}
        self.lives |= {(identity, version, stamps[identity]) for identity, version in newest.items()}

    # -- answers -------------------------------------------------------------------------------------------------

    def is_of_this_history(self, loaded: LoadedStream) -> bool:
        return (loaded.head.identity, loaded.head.version, loaded.head.stamp) in self.lives

    def noted(self, stream: str, writer: str, time: int, offset: int, *, late: bool, moves: tuple[int, int]) -> None:
        """A note was answered. `moves` are those from before the call."""
        if moves != self.moves_of(stream):
            self.forget_notes(stream, writer)  # of what comes next it is not known what it follows
            return
        stored = self.stored(stream)
        assert stored is not None
        segment = writer.rpartition("-")[2]
        found = stored.stream.writers.get(writer)
        position = -1 if found is None else found.position.offset(segment)
        self.must(position >= offset, f"{stream}: {writer} noted {offset}, and the store has {position}")
        identity = stored.origin.identity
        fact = NotedAt(self._server.commits, time, offset)
        self.facts.answered.setdefault((identity, writer), []).append(fact)
        self.counts["notes"] += 1
        if late:
            self.facts.notes.pop((identity, writer), None)
            return
        notes = self.facts.notes.setdefault((identity, writer), [])
        notes.append(fact)
        if len(notes) > 1:
            for _, mark in self.facts.marks.get((identity, ""), []):
                if writer not in mark.excluded:
                    self._fits(mark, writer, *notes[-2:])

    def moves_of(self, stream: str) -> tuple[int, int]:
        return self.moves[stream], self.moves[""]

    def forget_notes(self, stream: str, writer: str) -> None:
        """What it wrote before may be late from now on."""
        for identity, name in list(self.facts.notes):
            if name == writer:
                del self.facts.notes[identity, name]

    def unchanged(self, stream: str, writer: str, offset: int) -> None:
        """A note got an answer that nothing was changed, and was not sent otherwise."""
        stored = self.stored(stream)
        found = None if stored is None else stored.stream.writers.get(writer)
        if found is not None:
            position = found.position.offset(writer.rpartition("-")[2])
            self.must(position < offset, f"{stream}: {writer} was told that {offset} changed nothing, it is stored")
        self.counts["nothing changed"] += 1

    def registered(self, stream: str, epoch: int, before: int) -> None:
        self.must(epoch > before, f"{stream}: epoch {epoch} was given out after {before}")
        self.facts.epochs.setdefault(stream, []).append((self._server.commits, epoch))
        self.counts["registered"] += 1

    def greatest_epoch(self, stream: str) -> int:
        return max((epoch for _, epoch in self.facts.epochs.get(stream, [])), default=0)

    def shown(self, stream: str, identity: str, key: str, marks: Iterable[Any]) -> None:
        """Marks were shown to a reader."""
        known = self.facts.marks.get((identity, key), [])
        for each in marks:
            self.must(each.seq <= len(known), f"{stream}: mark {each.seq} is shown, the store has {len(known)}")
            mark = known[each.seq - 1][1]
            self.must((mark.time, mark.excluded) == (each.time, tuple(each.excluded)), f"{stream}: {each}, not {mark}")
            self.counts["shown"] += 1

    def greatest(self, facts: Mapping[Any, list[tuple[int, int]]], of: object) -> int:
        return max((value for _, value in facts.get(of, [])), default=-1)

    def told(self, group: str, watermarks: Mapping[str, int | None], before: int, went_back: int) -> None:
        """A window of a group was told; `before` is the greatest watermark that was told before the call."""
        time = watermarks.get("")
        if went_back == self.moves[""]:
            self.must(before < 0 or (time is not None and time >= before), f"{group}: {before}, and then {time}")
            if time is not None:
                self.facts.told.setdefault(group, []).append((self._server.commits, time))
            self.counts["windows"] += 1

    def held_is_stored(self, cached: LoadedGroup, window: GroupWindow) -> None:
        """A watermark that the streams do not show, and without whom it is, is stored before it is told."""
        stored = self.stored_group(cached.membership.name)
        if stored is None or cached.head.differs(stored.head):
            return  # others have written since
        lowest = [each.lower for each in window.streams.values()]
        known, time = [each for each in lowest if each is not None], window.watermarks.get("")
        proven = min(known) if len(known) == len(lowest) else -1
        held = stored.held.watermarks.get("", -1)
        self.must(time is None or time <= max(proven, held), f"{time} is told, {proven} proven and {held} held")
        aside = {name: each.set_aside for name, each in window.streams.items() if each.set_aside is not None}
        self.must(aside == stored.held.aside, f"told without {aside}, and stored {stored.held.aside}")

    # -- caches --------------------------------------------------------------------------------------------------

    def same_tokens(self, cached: Tokens, *, now: bool = False) -> None:
        """Tokens in memory that have the stamp of the store let in those that the store has, as all do that are as the
        store is now."""
        connection = self._server.connection
        if not now and changed_tokens(connection, cached.stamp) is not None:
            return
        with connection.begin():
            valid = {each.grant.name for each in list_tokens(connection) if each.revoked_at is None}
        admitted = set()
        for token in self.tokens.values():
            with suppress(Unauthenticated):
                admitted.add(cached.check(token).name)
        self.must(admitted == valid, f"tokens that differ from the store: {sorted(admitted ^ valid)}")
        self.counts["tokens compared"] += 1

    def same_stream(self, cached: LoadedStream, unserved: Unserved, now: int) -> None:
        """A cache whose head is the store's equals a fresh load."""
        stored = self.stored(cached.name, unserved)
        assert stored is not None
        expected, found = facts_of(stored.stream, now), facts_of(cached.stream, now)
        expected["clock"] = max(stored.stream.clock, cached.stream.clock)  # a refused call moves it
        expected |= {"origin": stored.origin, "first_seqs": stored.first_seqs, "places": stored.places}
        expected |= {"standing": stored.standing, "log": [seq for seq, *_ in stored.log.rows]}
        expected |= {"journaled": stored.head.journaled}
        found |= {"origin": cached.origin, "first_seqs": cached.oldest_seqs, "places": cached._places}
        found |= {"standing": standing_text(cached.standing), "log": [seq for seq, *_ in cached.log._log.rows]}
        found |= {"journaled": cached.journal.written}
        for key, chain in stored.chains.items():
            first = max(chain.first_seq, cached.chains[key].first_seq)
            expected[f"marks {key!r}"] = chain.after(first - 1, len(chain))
            found[f"marks {key!r}"] = cached.chains[key].after(first - 1, len(chain))
        self._same(cached.name, expected, found)
        self.counts["compared"] += 1

    def same_group(self, cached: LoadedGroup) -> None:
        stored = self.stored_group(cached.membership.name)
        assert stored is not None
        fresh, members = LoadedGroup.loaded(stored).membership, cached.membership
        names = ("settings", "identities", "epochs", "readers", "offsets", "unsettled", "owners", "held")
        expected, found = ({each: getattr(one, each) for each in names} for one in (fresh, members))
        self._same(members.name, expected, found)
        self.counts["groups compared"] += 1

    def _same(self, name: str, expected: Mapping[str, object], found: Mapping[str, object]) -> None:
        differs = [each for each in {**expected, **found} if expected.get(each) != found.get(each)]
        shown = {each: (expected.get(each), found.get(each)) for each in differs}
        self.must(not differs, f"a cache of {name} differs from the store: {shown}")
