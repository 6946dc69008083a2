"""What must hold, judged by one who knows every event and every answer.

A mark (T, C) is answerable for an event older than T, to the writer of it, when that writer *stood* in the key: from
its registration, or a note, until it says idle or closes. Silence does not end it. Then the event lies below C, or

    the mark names the writer,
    or the writer was lost for `forget_after_ms` when the mark was made,
    or its process was told a floor at or above T, as it registered or in answer to a note.

For an event that a mark misses, for whichever of these reasons or because its writer did not stand, there is a
*debt*: the next note of its process is answered with a floor at or above T. What a process writes after another one
took its name counts for nothing.

`upper` of a mark bounds every time that had been noted for an event below its cut: the time of its writer's first note
whose position covers it, and before there is one, of the last note before it was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from strandline.core.changes import NoteResult, Registered
from strandline.core.config import LateWriters, StreamConfig
from strandline.core.cut import NOTHING, Cut
from strandline.core.mark import Mark
from strandline.core.note import Note
from strandline.errors import Refused, UnknownWriter
from tests.simulation.accounts import Account, Accounts
from tests.simulation.controller import GONE_KEPT_MS, Done
from tests.simulation.log import Event, Log
from tests.simulation.network import Call
from tests.simulation.writers import Process


class Broken(AssertionError):
    """A rule was broken."""


class FalseClaim(Broken):
    """A mark or a window says what is not so, or goes back."""


def fail(claim: str) -> NoReturn:
    raise FalseClaim(claim)


def greatest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class Seen:
    """A mark, and which lost writers it need not name any more."""

    mark: Mark
    forgotten: frozenset[str]


class Checker:
    """Told of everything that happens; raises FalseClaim.

    Other rules, for epochs, floors and progress, raise Broken, unless only `claims` are of interest: so it can be seen
    that a broken rule leads to a false claim.
    """

    def __init__(
        self, log: Log, keys: tuple[str, ...], config: StreamConfig, tails: Iterable[str], *, only_claims: bool = False
    ) -> None:
        self.only_claims = only_claims
        self.log = log
        self.keys = keys
        self.config = config
        self.tails = tuple(tails)
        self.marks: dict[str, list[Seen]] = {key: [] for key in keys}
        self.pending: dict[str, list[Event]] = {key: [] for key in keys}  # not below the last cut
        self.newest_below: dict[str, int | None] = dict.fromkeys(keys)
        self.noted_below: dict[str, int | None] = dict.fromkeys(keys)  # the greatest time noted for what lies there
        self.uncovered: dict[tuple[str, str], list[Event]] = {}  # by writer and key, not below what it noted
        self.accounts = Accounts(keys, config)
        self.standing: dict[tuple[str, str], int] = {}  # the seq of the last mark before it began
        self.have_noted: dict[str, set[str]] = {key: set() for key in keys}
        self.told: dict[tuple[Process, str], int] = {}
        self.debts: dict[tuple[Process, str], int] = {}
        self.first_told: dict[tuple[str, str], tuple[Call, int]] = {}  # with the answer to the newest note
        self.rest: Mark | None = None  # the furthest that time was told to have reached at rest
        self.epochs = 0
        self.counts: Counter[str] = Counter()  # how often each thing happened that there is to prove
        self.sealed = False
        self.forgotten: Cut = NOTHING  # all that writers had noted that are forgotten

    def complain(self, complaint: str) -> None:
        if not self.only_claims:
            raise Broken(complaint)

    # -- the log -------------------------------------------------------------------------------------------------

    def landed(self, event: Event) -> None:
        for key in event.times:
            self.pending[key].append(event)
            for tail in self.tails:
                self._owe(event, key, tail)
            if event.writer is not None:
                account = self.accounts[event.writer]
                if key in account.noted and account.position.offset(event.segment):
                    event.noted[key] = account.noted[key]
                self.uncovered.setdefault((event.writer, key), []).append(event)

    def acked(self, event: Event) -> None:
        """An acknowledged write counts, unless its process was no longer the newest one of its name, or is dead."""
        event.acked = True
        assert event.writer is not None and event.process is not None
        if self.accounts[event.writer].owner is not event.process or not event.process.alive:
            return
        event.counted = True
        for key in event.times:
            self._owe(event, key, event.writer)

    def _owe(self, event: Event, key: str, name: str) -> None:
        since = self.standing.get((name, key))
        if since is not None:
            event.owed.setdefault(key, {}).setdefault(name, since)
        for seen in reversed(self.marks[key]):
            if seen.mark.time <= event.times[key]:
                break
            if not event.below(seen.mark.cut):
                self._missed(seen, event, key)

    def _missed(self, seen: Seen, event: Event, key: str) -> None:
        mark = seen.mark
        for name, since in event.owed.get(key, {}).items():
            process = event.process if name == event.writer else self.accounts[name].owner
            if mark.seq <= since:
                continue
            if name in mark.excluded:
                self.counts["missed, named"] += 1
            elif name in seen.forgotten:
                self.counts["missed, forgotten"] += 1
            elif process is not None and self.told.get((process, key), mark.time - 1) >= mark.time:
                self.counts["missed, told before"] += 1
            else:
                self._unexcused(seen, event, name, since)
        debtors = [self.accounts[tail].owner for tail in self.tails]
        if event.counted:
            debtors.append(event.process)
        for debtor in debtors:
            if debtor is not None and self.told.get((debtor, key), mark.time - 1) < mark.time:
                self.debts[debtor, key] = max(self.debts.get((debtor, key), mark.time), mark.time)

    def _unexcused(self, seen: Seen, event: Event, name: str, since: int) -> NoReturn:
        fail(f"{seen.mark} misses {event}, and {name!r}, which stands since mark {since}, was told nothing")

    # -- marks ---------------------------------------------------------------------------------------------------

    def _mark(
        self,
        mark: Mark,
        least_writers: int,
        granted: Collection[str] = (),
        forgotten: frozenset[str] = frozenset(),
    ) -> None:
        before = self.marks[mark.key]
        last = before[-1].mark if before else None
        self._follows(mark, last)
        if len(self.have_noted[mark.key]) < least_writers and not self.sealed:
            self.complain(f"{mark} before {least_writers} writers have noted")
        for name in mark.excluded:
            account = self.accounts[name]
            if name in granted:
                continue
            if account.ended and account.aside is None and account.left is None:
                self.complain(f"{mark} names {name!r}, which is {account.last_word}")
            if not self._cause(name, mark.key, mark.created_at):
                self.complain(f"{mark} names {name!r} without a cause: heard at {account.heard}")
        forgotten = self.accounts.forgotten(mark.key, mark.created_at) | forgotten
        self._claims(Seen(mark, forgotten))
        before.append(Seen(mark, forgotten))
        self.counts["mark" if mark.complete else "mark, incomplete"] += 1
        self.counts["mark, newest known"] += mark.newest is not None
        self.pending[mark.key] = [event for event in self.pending[mark.key] if not event.below(mark.cut)]

    def _follows(self, mark: Mark, last: Mark | None) -> None:
        if mark.seq != (last.seq if last else 0) + 1:
            fail(f"{mark} does not follow {last}")
        if last is not None and (
            mark.time <= last.time or mark.upper < last.upper or mark.created_at < last.created_at
        ):
            fail(f"{mark} goes back from {last}")
        if last is not None and not last.cut.le(mark.cut):
            fail(f"the cut of {mark} goes back from {last}")
        rest = self.rest
        if rest is not None and mark.key == rest.key and not (rest.time <= mark.time and rest.cut.le(mark.cut)):
            fail(f"{mark} goes back from what was told at rest: {rest}")

    def _claims(self, seen: Seen) -> None:
        """That nothing it answers for is missing, nothing below it newer than it says, and all below it written."""
        mark = seen.mark
        end = self.log.end()
        offsets = dict(mark.cut.items())
        for segment, offset in offsets.items():
            if offset > end[segment]:
                fail(f"{mark} reaches past the end of segment {segment}, {end[segment]}")
        if {name: offset for name, offset in self.log.closed(offsets).items() if offset} != offsets:
            fail(f"the cut of {mark} is not closed: {self.log.closed(offsets)}")
        newest, noted = self.newest_below[mark.key], self.noted_below[mark.key]
        for event in self.pending[mark.key]:
            time = event.times[mark.key]
            if event.below(mark.cut):
                newest = time if newest is None else max(time, newest)
                noted = greatest(noted, event.noted.get(mark.key))
            elif time < mark.time:
                self._missed(seen, event, mark.key)
        if mark.newest is not None and newest is not None and newest > mark.newest:
            fail(f"{mark} has something newer below it: {newest}")
        if noted is not None and noted > mark.upper:
            fail(f"{mark} has below its cut what was noted at {noted}")
        self.newest_below[mark.key], self.noted_below[mark.key] = newest, noted

    def resting(self, mark: Mark, served: int) -> None:
        """A mark that is told but not stored."""
        self.accounts.served = served
        marks = self.marks[mark.key]
        self._follows(mark, marks[-1].mark if marks else None)
        self.rest = mark
        self.counts["rest told"] += 1
        self._claims(Seen(mark, self.accounts.forgotten(mark.key, mark.created_at)))

    def _cause(self, name: str, key: str, now: int) -> bool:
        """Whether the next mark may name a writer: it is lost, or behind and skipped."""
        account, marks = self.accounts[name], self.marks[key]
        if self.accounts.lost(account, key, now):
            return True
        skips = self.config.late_writers is LateWriters.SKIP
        return skips and bool(marks) and key in account.noted and account.noted[key] < marks[-1].mark.time

    # -- calls ---------------------------------------------------------------------------------------------------

    def done(self, done: Done) -> None:
        """Something was executed, and is durable."""
        self.accounts.served = done.served
        result, marks = done.result, done.changes.marks
        for name in sorted(done.changes.forgotten):  # before anything else that the call brought about
            self._forgotten(name, done.now)
        least_writers = min(self.config.min_writers, done.config.min_writers)
        # Some marks may have been made before the call had its effect: who was silent is let go, and rest stored first.
        keys = {mark.key for mark in marks}
        caused = {name for name in self.accounts for key in keys if self._cause(name, key, done.now)}
        forgotten = {key: self.accounts.forgotten(key, done.now) for key in keys}
        self.config = self.accounts.config = done.config
        later = list(result.marks) if isinstance(result, NoteResult) else marks
        if isinstance(result, Refused):
            self.counts[result.code] += 1
        if isinstance(result, NoteResult | Registered):
            for mark in marks[: len(marks) - len(later)] if isinstance(result, NoteResult) else marks:
                self._mark(mark, least_writers)
        call = done.call
        if isinstance(result, UnknownWriter) and call is not None and self.accounts[call.process.name].last_word:
            self.complain(f"{call} is refused, although the writer is known or was forgotten")
        if not isinstance(result, Refused):
            self._effect(done)
            self.accounts.notice_silence(done.now)  # where a writer times out at once, it is lost from now on
        if not isinstance(result, Registered):
            for mark in later:
                if isinstance(result, NoteResult):
                    self._mark(mark, least_writers)
                else:
                    self._mark(mark, least_writers, caused, forgotten[mark.key])

    def _forgotten(self, name: str, now: int) -> None:
        """A writer was forgotten: it closed or was lost for long enough, and the marks have all that it gave."""
        account = self.accounts[name]
        self.counts["forgotten, closed" if account.last_word == "closed" else "forgotten, lost"] += 1
        if account.aside is not None:
            self.complain(f"{name!r} is forgotten, but an operator has set it aside")
        if now - account.heard_at < GONE_KEPT_MS:
            self.complain(f"{name!r} is forgotten at {now}, but was heard at {account.heard_at}")
        if account.last_word != "closed":
            awaited = account.held - (account.idle_in if account.left is None else set())
            if not awaited:
                self.complain(f"{name!r} is forgotten at {now}, but said that it is idle")
            for key in awaited:
                if self.accounts.is_lost_for_long(account, key, now):
                    account.unnamed.add(key)
                else:
                    lost = self.accounts.lost(account, key, now)
                    self.complain(f"{name!r} is forgotten at {now}, but in key {key!r} it was lost at {lost}")
        for key in account.held & set(self.keys):
            last = self.marks[key][-1].mark if self.marks[key] else None
            noted, greatest_time = account.noted.get(key), account.greatest.get(key)
            if last is None:
                passed = greatest_time is None and not account.position
            else:
                in_time = (noted is None or noted <= last.time) and (
                    greatest_time is None or greatest_time <= last.upper
                )
                passed = in_time and account.position.le(last.cut)
            if not passed:
                self.complain(
                    f"{name!r}, which noted {noted}, {greatest_time} and {account.position}, is forgotten at {last}"
                )
            if name in self.have_noted[key]:
                self.have_noted[key].remove(name)
                self.have_noted[key].add(f"{name}, forgotten {self.counts.total()}")
        account.forgotten, account.known = True, NOTHING
        self.forgotten = self.forgotten.join(account.position)
        if account.epoch is not None:
            account.closed_epoch, account.epoch = account.epoch, None

    def _effect(self, done: Done) -> None:
        name, call = done.writer, done.call
        if done.what == "configure":
            self.accounts.reconfigured(done.now)
        self.sealed = self.sealed or done.sealed
        if name is None:
            return
        account = self.accounts[name]
        if done.what in ("idle", "close") and account.forgotten:
            return  # it was done before
        if call is not None and account.is_stale(call):
            self.complain(f"{call} was taken, but the newest epoch is {account.epoch}")
            return
        match done.result:
            case Registered() as result:
                assert call is not None
                self._registered(name, account, call.process, result, done.now)
            case NoteResult() as result:
                assert call is not None
                self._noted(name, account, call, result, done.now)
            case _:
                self._said(done, name, account)

    def _said(self, done: Done, name: str, account: Account) -> None:
        match done.what:
            case "idle":
                if account.last_word != "closed":
                    self.accounts.heard(account, done.now)
                    account.last_word = "idle"
                    account.idle_in = set(self.keys)
                    account.silent_from.clear()
                    self._stands_no_more(name)
            case "close":
                if account.epoch is not None:
                    account.closed_epoch, account.epoch = account.epoch, None
                if done.closed:
                    if account.last_word != "closed":
                        self.accounts.heard(account, done.now)
                    account.last_word, account.aside = "closed", None
                    account.silent_from.clear()
                    self._stands_no_more(name)
                elif name in self.tails:
                    account.left = done.now if account.left is None else account.left
                elif account.aside is None:
                    account.aside = done.now
            case "exclude":
                if account.last_word != "closed" and account.aside is None:
                    account.aside = done.now
            case "include":
                account.aside = None
            case _:
                pass

    def _registered(self, name: str, account: Account, process: Process, result: Registered, now: int) -> None:
        if result.epoch <= self.epochs:
            self.complain(f"epoch {result.epoch} was given out before: {self.epochs}")
        account.epoch = result.epoch
        self.epochs = max(self.epochs, result.epoch)
        if account.owner is None or process.number > account.owner.number:
            account.owner = process
        self._comes_again(account)
        if account.last_word == "closed":
            self._new_life(name)
        self.accounts.heard(account, now)
        account.last_word, account.aside, account.left = "register", None, None
        self._takes_up(account, result.floors)
        for key, floor in result.floors.items():
            if floor is not None:
                self.told[process, key] = max(self.told.get((process, key), floor), floor)
            for (debtor, owed), time in list(self.debts.items()):
                if debtor.name == name and owed == key:
                    self._settle(debtor, key, floor, time, "registering")
            self._stands(name, key)
            account.held.add(key)
            account.unnamed.discard(key)
            account.idle_in.discard(key)
            account.silent_from.pop(key, None)
            self.first_told.pop((name, key), None)

    def _noted(self, name: str, account: Account, call: Call, answer: NoteResult, now: int) -> None:
        process, note = call.process, call.note
        assert note is not None
        cut = Cut(self.log.closed(note.position))
        times = self._counted(note, now)
        for key, time in times.items():
            last = self.marks[key][-1].mark if self.marks[key] else None
            if last is not None and time < last.time:
                self.counts["late note"] += 1
                floor = answer.floors[key]
                if not answer.late or floor is None or floor < last.time:
                    self.complain(f"{call} is late after {last}, but was told {floor}, late {answer.late}")
        for key, floor in answer.floors.items():
            first = self.first_told.get((name, key))
            if first is not None and first[0] is call and (floor is None or floor < first[1]):
                self.complain(f"{call} was told {first[1]} first, then {floor}: but the first answer may be lost")
            if floor is not None:
                self.told[process, key] = max(self.told.get((process, key), floor), floor)
            if (process, key) in self.debts:
                self._settle(process, key, floor, self.debts[process, key], f"noting {dict(note.times)}")
        self._comes_again(account)
        self.accounts.heard(account, now)
        repeats = cut.le(account.known) and all(account.noted.get(key) == time for key, time in times.items())
        if repeats and account.last_word == "closed":
            return
        if account.last_word == "closed":
            self._new_life(name)
        if not (repeats and account.last_word == "idle"):
            account.last_word = "note"
        self._takes_up(account, times)
        account.position, account.known = account.position.join(cut), account.known.join(cut)
        account.left = None
        for key, time in times.items():
            if repeats and key in account.idle_in:
                continue
            account.idle_in.discard(key)
            account.silent_from.pop(key, None)
            account.noted[key] = time
            account.greatest[key] = max(time, account.greatest.get(key, time))
            account.held.add(key)
            account.unnamed.discard(key)
            self._covers(name, account, key, time)
            self.have_noted[key].add(name)
            self._stands(name, key)
            floor = answer.floors[key]
            if floor is None:
                self.first_told.pop((name, key), None)
            elif not repeats:
                self.first_told[name, key] = call, floor

    def _covers(self, name: str, account: Account, key: str, time: int) -> None:
        """A note covers events of its writer."""
        events, marks = self.uncovered.get((name, key), []), self.marks[key]
        for event in events:
            if event.below(account.position):
                event.noted[key] = max(time, event.noted.get(key, time))
                if marks and event.below(marks[-1].mark.cut):
                    self.noted_below[key] = greatest(self.noted_below[key], event.noted[key])
        self.uncovered[name, key] = [event for event in events if not event.below(account.position)]

    def _counted(self, note: Note, now: int) -> Mapping[str, int]:
        if self.config.time_domain == "event":
            return note.times
        return {"": min(note.times[""], now) - self.config.clock_skew_ms}

    def _settle(self, process: Process, key: str, floor: int | None, time: int, by: str) -> None:
        del self.debts[process, key]
        self.counts["debt settled"] += 1
        if floor is None or floor < time:
            self.complain(
                f"{process} has events in key {key!r} older than {time} that a mark misses, but {by} told {floor}"
            )

    def _comes_again(self, account: Account) -> None:
        """A writer that was forgotten is a new one, whatever its last word was."""
        if account.forgotten:
            account.forgotten, account.last_word = False, "closed"
            account.held.clear()
            account.noted.clear()

    def _takes_up(self, account: Account, keys: Collection[str]) -> None:
        """In a key that it did not hold, it counts with all that forgotten writers noted, unless the marks have it."""
        for key in keys:
            marks = self.marks.get(key)  # none of the default key, where a writer that gave no key may wait
            last = marks[-1].mark.cut if marks else NOTHING
            if key not in account.held and not self.forgotten.le(last):
                account.known = account.known.join(self.forgotten)

    def _new_life(self, name: str) -> None:
        self.accounts[name].idle_in = set(self.keys)
        self.accounts[name].noted.clear()

    def _stands(self, name: str, key: str) -> None:
        if (name, key) in self.standing or key not in self.marks:
            return  # registered without keys and unknown till then, it stands in the default key, where nothing happens
        since = self.standing[name, key] = len(self.marks[key])
        for event in self.pending[key]:
            if name in self.tails or (event.writer == name and event.counted):
                event.owed.setdefault(key, {}).setdefault(name, since)

    def _stands_no_more(self, name: str) -> None:
        """A tail reporter cannot speak for what was appended after it looked: that may come late, and is a debt."""
        for key in self.keys:
            self.standing.pop((name, key), None)
            for event in self.pending[key] if name in self.tails else ():
                if not event.below(self.accounts[name].position):
                    event.owed.get(key, {}).pop(name, None)

    def restarted(self, known: Iterable[str]) -> None:
        """Another controller begins; `known` are the writers that it found."""
        for name in known:
            if self.accounts[name].forgotten:
                self.complain(f"{name!r} was forgotten, and is back after a restart")

    def notice_silence(self, now: int, served: int) -> None:
        """Time is about to pass, and maybe nobody can be heard in it."""
        self.accounts.served = served
        self.accounts.notice_silence(now)
