"""Bugs that are planted in a real controller, to see that the harness finds each of them.

A mutant patches classes of the process that the launcher has forked, before `strandline` runs in it. `rules` are those
of the checker that it breaks: at least one of them has to tell.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from zlib import crc32

from controller.clock import Clock, HostClock
from controller.commit import store as store_module
from controller.commit.freshness import Freshness
from controller.commit.group_commit import Committer, Durable, Turn, Unwritten
from controller.commit.store import Store
from controller.commit.writer_log import WriterLog
from controller.groups.loaded_group import LoadedGroup
from controller.groups.membership import Membership
from controller.storage import load as stored_module
from controller.storage import marks as marks_module
from controller.storage import news as news_module
from controller.storage import rows as rows_module
from controller.storage.heads import Head, compare
from controller.storage.news import Found
from controller.storage.writer_states import StoredChange
from controller.streams.loaded_stream import LoadedStream
from strandline.core import admission
from strandline.core import stream as stream_module
from strandline.core.aggregate import Aggregate
from strandline.core.chain import MarkChain, Sides
from strandline.core.config import TimeDomain
from strandline.core.contributions import Contributions
from strandline.core.cut import NOTHING, Cut
from strandline.core.mark import Mark
from strandline.core.note import DEFAULT_KEY
from strandline.core.served_time import Unserved
from strandline.core.stream import Stream


@dataclass(frozen=True, slots=True)
class Mutant:
    plant: Callable[[], None]
    rules: tuple[str, ...]
    kinds: tuple[str, ...] = ()  # of the faults that bring it to light; of those it needs several controllers


def patch(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Puts what `make` makes of it in the place of a function, or of a value."""
    real = getattr(owner, name)
    bug = make(real)
    if callable(real):
        _check_fit(real, bug)
    setattr(owner, name, bug)


def _check_fit(real: Callable[..., Any], bug: Callable[..., Any]) -> None:
    """Raises TypeError where a planted function cannot be called as the real one is: that would be another bug."""
    given = inspect.signature(real).parameters.values()
    named = {each.name: None for each in given if each.kind is each.KEYWORD_ONLY}
    several = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [each for each in given if each.kind in several]
    inspect.signature(bug).bind(*positional, **named)
    inspect.signature(bug).bind(*(each for each in positional if each.default is each.empty), **named)
    if inspect.isgeneratorfunction(real) != inspect.isgeneratorfunction(bug):
        raise TypeError(f"{real} and what is planted for it are not both generators")


def answer_before_the_commit() -> None:
    def make(join: Any) -> Any:
        def broken(self: Committer, kept: Unwritten, calls: int = 1) -> Durable:
            joined: Durable = join(self, kept, calls)
            if not isinstance(kept, LoadedStream):
                return joined
            done = Durable(loop=asyncio.get_running_loop())
            done.set_result(None)
            return done

        return broken

    patch(Committer, "join", make)


def drop_a_writer_of_each_commit() -> None:
    def make(write: Any) -> Any:
        def broken(self: WriterLog, writers: Any, changed: Any, forgotten: Any, commit: Any) -> None:
            write(self, writers, sorted(changed)[1:] if len(changed) > 1 else changed, forgotten, commit)

        return broken

    patch(WriterLog, "write", make)


def show_marks_before_they_are_durable() -> None:
    """On a disk that takes 30 ms, so that a kill in between is likely."""

    def slow(original: Any) -> Any:
        def broken(self: Store, commit: Any, order: Any) -> None:
            time.sleep(0.03)
            original(self, commit, order)

        return broken

    def early(write: Any) -> Any:
        def broken(self: LoadedStream, commit: Any) -> Callable[[], None]:
            write(self, commit)()
            return lambda: None

        return broken

    patch(Store, "_commit", slow)
    patch(LoadedStream, "write", early)


def lose_the_last_mark_on_loading() -> None:
    def make(newest_marks: Any) -> Any:
        def broken(reader: Any, name: str, step: Any) -> Any:
            chains, heads, first_seqs = yield from newest_marks(reader, name, step)
            for key, chain in chains.items():
                if len(heads[key]) > 1:
                    chains[key] = MarkChain(list(chain)[:-1])
                    del heads[key][-1]
            return chains, heads, first_seqs

        return broken

    patch(stored_module, "_newest_marks", make)


def say_that_nothing_changed_after_a_commit() -> None:
    commits = 0

    def make(original: Any) -> Any:
        def broken(self: Store, commit: Any, order: Any) -> None:
            nonlocal commits
            original(self, commit, order)
            commits += 1
            if commits % 40 == 0:
                raise RuntimeError("the commit is done")

        return broken

    patch(Store, "_commit", make)


def give_an_epoch_twice() -> None:
    def make(restored: Any) -> Any:
        def broken(*arguments: Any, epochs: int, **named: Any) -> Stream:
            stream: Stream = restored(*arguments, epochs=max(0, epochs - 1), **named)
            return stream

        return broken

    patch(Stream, "restored", make)


def read_one_mark_too_far() -> None:
    def make(sides: Any) -> Any:
        def broken(self: MarkChain, position: Any) -> Sides:
            found: Sides = sides(self, position)
            if found.seq is None or found.seq == self.last_seq:
                return found
            further = self[found.seq + 1]
            return found._replace(lower=further.time, complete=further.complete, seq=further.seq)

        return broken

    patch(MarkChain, "sides", make)


def count_silence_while_nobody_served() -> None:
    patch(Unserved, "served", lambda _: lambda self, now: now)


def leave_a_writer_out_of_each_cut() -> None:
    def make(add: Any) -> Any:
        def broken(self: Contributions, name: str, above: int | None, time: int | None, cut: Cut) -> None:
            add(self, name, above, time, NOTHING if crc32(name.encode()) % 2 else cut)

        return broken

    patch(Contributions, "add", make)


def bound_nothing_by_upper() -> None:
    def make(mark: Any) -> Any:
        def broken(self: Aggregate, *arguments: Any, **options: Any) -> Mark:
            made: Mark = mark(self, *arguments, **options)
            return replace(made, upper=made.time if self.last is None else max(made.time, self.last.upper))

        return broken

    patch(Aggregate, "_mark", make)


def say_that_nothing_is_newer_than_the_mark() -> None:
    def make(mark: Any) -> Any:
        def broken(self: Aggregate, *arguments: Any, **options: Any) -> Mark:
            made: Mark = mark(self, *arguments, **options)
            return replace(made, newest=made.time - 1) if made.newest is not None else made

        return broken

    patch(Aggregate, "_mark", make)


@dataclass(frozen=True, slots=True)
class _Behind:
    """A host whose wall clock is behind."""

    host: HostClock
    by_ms: int

    def wall(self) -> int:
        return self.host.wall() - self.by_ms

    def monotonic(self) -> int:
        return self.host.monotonic()


def let_the_clock_step_back() -> None:
    """Each process takes the time of a host of its own, whose clock is behind, and none heeds what was told before."""

    def make(init: Any) -> Any:
        def broken(self: Clock, host: HostClock, floor: int | None = None, **options: Any) -> None:
            init(self, _Behind(host, os.getpid() % 7 * 700), None, **options)

        return broken

    patch(Clock, "__init__", make)


def forget_what_readers_reported() -> None:
    def make(write: Any) -> Any:
        def broken(self: LoadedGroup, commit: Any) -> Any:
            self.membership.touched.places.clear()
            return write(self, commit)

        return broken

    patch(LoadedGroup, "write", make)


def give_out_segments_that_others_own() -> None:
    def make(acquire: Any) -> Any:
        def broken(self: Membership, name: str, *arguments: Any) -> None:
            self.owners = {place: owner for place, owner in self.owners.items() if owner == name}
            acquire(self, name, *arguments)

        return broken

    patch(Membership, "acquire", make)


def tell_no_floor_to_who_comes_back() -> None:
    def make(_: Any) -> Any:
        def broken(self: Stream, writer: Any, admitted: Any, now: int) -> dict[str, int | None]:
            return dict.fromkeys(admitted.times)

        return broken

    patch(Stream, "_floors", make)


def change_marks_on_loading() -> None:
    def make(mark_of: Any) -> Any:
        def broken(row: Any) -> Mark:
            mark: Mark = mark_of(row)
            return replace(mark, created_at=mark.created_at - 1)

        return broken

    patch(rows_module, "mark_of", make)
    patch(marks_module, "mark_of", make)


def stamp_positions_on_arrival() -> None:
    """In the ingestion domain: the clock as the report comes in, not as it was before the ends were read."""

    def make(counted_times: Any) -> Any:
        def broken(note: Any, stream: str, config: Any, now: int) -> Mapping[str, int]:
            if config.time_domain is TimeDomain.INGESTION:
                return {DEFAULT_KEY: now}
            times: Mapping[str, int] = counted_times(note, stream, config, now)
            return times

        return broken

    patch(admission, "_counted_times", make)


def make_no_mark_after_a_restart() -> None:
    def make(restored: Any) -> Any:
        def broken(*arguments: Any, **named: Any) -> Stream:
            stream: Stream = restored(*arguments, **named)
            stream._make_marks = lambda *_, **__: []  # type: ignore[method-assign]  # that is the bug
            return stream

        return broken

    patch(stream_module.Stream, "restored", make)


def answer_from_memory_without_a_look() -> None:
    patch(Freshness, "is_fresh", lambda _: lambda self, cached, within_s=None: True)


def compare_no_stamps() -> None:
    def differs(_: Any) -> Any:
        def broken(self: Head, stored: Head | None) -> bool:
            return stored is None or (self.identity, self.version) != (stored.identity, stored.version)

        return broken

    def since(changes_since: Any) -> Any:
        def broken(connection: Any, versions: Mapping[str, int]) -> Any:
            """What would be compared with a row of the log is as if it were the cache's own."""
            found = changes_since(connection, versions)
            return {name: [_own(each[0]), *each[1:]] if each else each for name, each in found.items()}

        return broken

    patch(Head, "differs", differs)
    patch(news_module, "changes_since", since)


class _Any(int):
    """A stamp that equals every other one."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def _own(change: StoredChange) -> StoredChange:
    return change._replace(stamp=_Any(change.stamp))


def answer_although_the_commit_failed() -> None:
    def make(fail: Any) -> Any:
        def broken(self: Committer, turn: Turn, error: Exception, began: float, *, undecided: bool = False) -> None:
            turn.done.set_result(None)
            fail(self, turn, error, began, undecided=undecided)

        return broken

    patch(Committer, "_fail", make)


def look_before_the_lock() -> None:
    def make(lock_and_look: Any) -> Any:
        def broken(connection: Any, subjects: Any, known: Any, creating: Any) -> Found:
            looked: Found = news_module._with_news(connection, Found(compare(connection, subjects)), known)
            found: Found = lock_and_look(connection, subjects, {}, creating)
            looked.service, looked.epochs = found.service, found.epochs
            return looked

        return broken

    patch(store_module, "lock_and_look", make)


MUTANTS: Final[Mapping[str, Mutant]] = {
    plant.__name__: Mutant(plant, rules)
    for plant, rules in (
        (answer_before_the_commit, ("durable_notes", "marks_agree", "pages", "nothing_changed", "floors", "epochs")),
        (drop_a_writer_of_each_commit, ("durable_notes", "floors", "refusals", "truth_of_marks")),
        (show_marks_before_they_are_durable, ("marks_agree", "pages", "windows", "refusals")),
        (lose_the_last_mark_on_loading, ("marks_agree", "pages", "windows", "refusals", "floors")),
        (say_that_nothing_changed_after_a_commit, ("durable_notes", "nothing_changed", "origin_of_marks")),
        (give_an_epoch_twice, ("epochs",)),
        (read_one_mark_too_far, ("windows",)),
        (count_silence_while_nobody_served, ("excluded",)),
        (leave_a_writer_out_of_each_cut, ("truth_of_marks",)),
        (bound_nothing_by_upper, ("upper",)),
        (say_that_nothing_is_newer_than_the_mark, ("newest",)),
        (let_the_clock_step_back, ("clock", "marks_agree")),
        (forget_what_readers_reported, ("group_positions",)),
        (give_out_segments_that_others_own, ("group_refusals", "group_owners")),
        (tell_no_floor_to_who_comes_back, ("late_notes",)),
        (change_marks_on_loading, ("marks_agree",)),
        (stamp_positions_on_arrival, ("truth_of_ingestion",)),
        (make_no_mark_after_a_restart, ("progress",)),
    )
} | {
    plant.__name__: Mutant(plant, rules, kinds)
    for plant, rules, kinds in (
        (answer_from_memory_without_a_look, ("pages", "windows", "refusals", "progress"), ("kill",)),
        (compare_no_stamps, ("marks_agree", "caches", "durable_notes", "pages", "windows", "progress"), ("fail_over",)),
        (
            answer_although_the_commit_failed,
            ("durable_notes", "marks_agree", "floors", "epochs", "nothing_changed", "group_positions"),
            ("kill_store", "kill_session", "end_sessions"),
        ),
        (
            look_before_the_lock,
            ("durable_notes", "group_positions", "group_owners", "progress"),
            ("pause_in_transaction",),
        ),
    )
}
