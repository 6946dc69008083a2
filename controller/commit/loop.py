"""Durable before answered: one loop commits the calls of all, on rows that any controller may write.

    calls   wait ─────────────────────────────────────────► answered      wait ─► …
    loop    take · lock · take in what others wrote · apply · write · commit · answer       take · …

Nobody owns a stream or a reader group: memory is a cache of the store. A call is about some of them, its subjects, and
has a step, which changes them in memory. The loop takes the calls that wait, and locks the heads of their subjects in
one transaction. Then it takes in what other controllers have written since, takes one step after the other without
waiting in between, writes what they changed, commits, and answers all. What a step may change it finds in `Locked`, and
only there. Calls that come while another controller holds the locks are applied with the others if theirs are locked.

A step that finds a subject not in memory, or other than it is locked, raises Cold: its caller loads it, outside of any
lock, and calls again. Requests with many notes wait behind all others, a portion of each, as far as there is room.

If a commit fails, memory is ahead of the store: what was changed is discarded, and its calls raise StoreUnavailable.
Those that came later are not affected. If COMMIT was sent and not answered, the next lock of the same rows shows by its
stamp whether it was carried out; only if that cannot be found out in time the calls raise StoreUndecided. A refusal is
told after the commit too: it rests on what that makes durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

from controller.clock import Clock
from controller.commit.health import StoreHealth
from controller.commit.item import Item
from controller.commit.store import Store
from controller.limits import DEFAULT_LIMITS
from controller.storage.diagnosis import diagnose
from controller.storage.heads import Service, new_stamp
from controller.storage.news import Found, Known
from controller.storage.save import Commit
from controller.storage.subjects import Kind, Subject
from controller.storage.transaction import CommitUnknown
from strandline.errors import Overloaded, Refused, StoreUnavailable, StoreUndecided, StrandlineError

# Turns of the event loop for calls that have arrived to join: it reads them in one, and begins their handlers in a
# later one. Without them, 64 connections made commits of half as many calls, each of which costs about as much.
TURNS_TO_JOIN: Final = 3
FLUSH_NOTES: Final = 512  # of work in one commit; further portions of requests with many notes wait for the next
FLUSH_NOTES_BESIDE: Final = 256  # the same beside calls that came alone
UNAWAITED_CALLS: Final = 32  # for which nobody waits, in one commit: each may take ten times as long as a note
STOPPED: Final = "the controller has stopped"

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Kept = TypeVar("Kept", bound=Item)
Found_ = TypeVar("Found_", bound=Item, covariant=True)


class Cold(Exception):
    """What a call is about is not in memory, or not as it is locked: its caller loads it, and calls again."""


class Memory(Protocol[Found_]):
    """What is in memory of a kind."""

    def find_loaded(self, name: str) -> Found_ | None:
        """The item if it is in memory."""


class Locked:
    """What is locked for the calls of one commit. A step finds in it what it may change, and must not keep that."""

    __slots__ = ("applied", "calls", "changed", "commit", "found", "items", "now", "over", "spoiled", "written")

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls
        self.items: dict[Subject, Item | None] = {}  # what was in memory of the subjects when they were locked
        self.found = Found({})
        self.now = 0  # the clock's time, once everything is locked
        self.applied = 0  # of the calls
        self.changed: dict[Subject, Item] = {}
        self.spoiled: set[Subject] = set()  # by a bug, which leaves open what a step has changed: nothing is written
        self.commit = Commit(new_stamp())
        self.written: list[tuple[Item, Callable[[], None]]] = []  # and how it is published
        # Done when what was changed is durable, or has failed. Wait for it, but do not await it: many do.
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def item(self, memory: Memory[Kept], subject: Subject) -> Kept:
        """A subject of the call, as it is locked or changed since. Raises Cold."""
        item, head = memory.find_loaded(subject.name), self.found.heads.get(subject)
        if item is None:
            raise Cold
        if subject not in self.changed:  # what was created for this commit has no head that is stored
            if item.head is not head and item.head.differs(head):
                raise Cold
            if item.head.restored_at is not None:
                item.begin_anew(item.head.restored_at)
                self.change(item)
        return item

    def change(self, item: Item) -> None:
        """Has what a step changed written."""
        self.changed[item.subject] = item


Step: TypeAlias = Callable[[Locked], Result]  # never waits; raises what is refused


@dataclass(eq=False, slots=True)
class Call:
    """A step, and who waits for it."""

    subjects: tuple[Subject, ...]
    take: Callable[[Locked], Callable[[], None]]  # takes the step, and returns what hands out its result
    left: Callable[[], bool]  # whether the caller has left
    fail: Callable[[Exception], None]
    creates: bool
    work: int  # in notes of one key
    context: Context = field(default_factory=copy_context)
    tell: Callable[[], None] | None = None  # once it is applied
    error: Exception | None = None  # the same


class CommitLoop:
    """Applies calls, and makes what they change durable."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        follow: Callable[[Service], None],
        *,
        waiting_calls: int = DEFAULT_LIMITS.waiting_calls,
        health: StoreHealth | None = None,
    ) -> None:
        """`follow` is called with what the store says of time, whenever something was locked."""
        self._store = store
        self._clock = clock
        self._follow = follow
        self.limit = waiting_calls
        self._health = health if health is not None else StoreHealth()
        self._memory: dict[Kind, Memory[Item]] = {}
        self._calls: deque[Call] = deque()
        self._portions: deque[Call] = deque()
        self._unawaited: deque[Call] = deque()
        self._wanted = asyncio.Event()
        self._locked: Locked | None = None  # by the commit that is under way, or will be
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    def serve(self, kind: Kind, memory: Memory[Item]) -> None:
        """From now on this is what is in memory of a kind."""
        self._memory[kind] = memory

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="commits")

    async def stop(self, seconds: float) -> bool:
        """Commits what is waiting, then ends. Returns whether it did in time."""
        settled = asyncio.create_task(self.settled())
        await asyncio.wait([settled], timeout=seconds)
        written = settled.done()
        for task in (settled, self._task):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        return written and self._health.up

    # -- calls ---------------------------------------------------------------------------------------------------

    def call(self, *subjects: Subject, step: Step[Result], creates: bool = False) -> asyncio.Future[Result]:
        """Takes a step under the locks of its subjects. The future has its result when everything is durable; it raises
        what the step raises, Cold, StoreUnavailable and StoreUndecided.

        Raises Overloaded if too many calls are waiting.
        """
        if len(self._calls) >= self.limit:
            raise Overloaded(waiting=len(self._calls), limit=self.limit)
        return self._want(self._calls, subjects, step, creates)

    def portion(self, *subjects: Subject, step: Step[Result], work: int) -> asyncio.Future[Result]:
        """The same of a portion of a request with many notes. `work` counts in notes of one key."""
        return self._want(self._portions, subjects, step, work=work)

    def soon(self, *subjects: Subject, step: Step[Result]) -> asyncio.Future[Result]:
        """The same where nobody waits for it."""
        done = self._want(self._unawaited, subjects, step)
        done.add_done_callback(_log_bug)
        return done

    def _want(
        self,
        queue: deque[Call],
        subjects: tuple[Subject, ...],
        step: Step[Result],
        creates: bool = False,
        work: int = 1,
    ) -> asyncio.Future[Result]:
        if self._ended:
            raise StoreUnavailable(reason=STOPPED)
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def take(locked: Locked) -> Callable[[], None]:
            return partial(done.set_result, step(locked))

        queue.append(Call(subjects, take, done.done, done.set_exception, creates, work))
        self._wanted.set()
        return done

    @property
    def waiting(self) -> int:
        """The number of calls that wait for the next commit."""
        return len(self._calls)

    def loaded(self, subject: Subject) -> Item | None:
        """What is in memory of a stream or a group."""
        return self._memory[subject.kind].find_loaded(subject.name)

    def under_way(self, subject: Subject) -> asyncio.Future[None] | None:
        """Done when the commit about it is over that is under way, and raises why it has failed; None without one. Wait
        for it, but do not await it."""
        locked = self._locked
        return locked.over if locked is not None and subject in locked.items else None

    async def over(self, subject: Subject) -> None:
        """Returns when that is over; raises why it has failed."""
        if (under_way := self.under_way(subject)) is not None:
            await asyncio.wait([under_way])
            under_way.result()

    async def settled(self) -> None:
        """Returns when everything that waits now is durable, or has failed."""
        while self._locked is not None or self._wanted.is_set():
            if self._locked is not None:
                await asyncio.wait([self._locked.over])
            await asyncio.sleep(0)

    # -- the loop ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                await self._wanted.wait()
                for _ in range(TURNS_TO_JOIN):
                    await asyncio.sleep(0)
                if calls := self._taken():
                    self._locked = Locked(calls)
                    await self._commit(self._locked)
                    self._locked = None
        finally:
            self._ended, self._locked = True, None
            self._wanted.clear()
            for call in (*self._calls, *self._portions, *self._unawaited):
                if not call.left():
                    call.fail(StoreUnavailable(reason=STOPPED))

    def _taken(self) -> list[Call]:
        """The calls of the next commit: all that came alone, and some of the others."""
        calls = list(self._calls)
        room = FLUSH_NOTES_BESIDE if calls else FLUSH_NOTES
        self._calls.clear()
        while self._portions and room > 0:
            calls.append(portion := self._portions.popleft())
            room -= portion.work
        for _ in range(min(UNAWAITED_CALLS, len(self._unawaited))):
            calls.append(self._unawaited.popleft())
        if not self._portions and not self._unawaited:
            self._wanted.clear()
        return calls

    async def _commit(self, locked: Locked) -> None:
        began, known, creating = self._health.begin(), dict[Subject, Known](), list[Subject]()
        for call in locked.calls:
            if call.creates:
                creating += call.subjects
            for subject in call.subjects:
                if subject not in locked.items:
                    item = locked.items[subject] = self.loaded(subject)
                    if item is not None:
                        known[subject] = item.known
        apply = partial(self._apply, locked, asyncio.get_running_loop().time())
        error: Exception | None = None
        durable: bool | None = False
        try:
            async with self._store.writing:
                try:
                    await self._store.transact(locked.items.keys(), known, creating, apply)
                    durable = True
                except CommitUnknown as unknown:
                    error, durable = unknown, None
                    durable = await self._store.outcome(locked.commit.versions, locked.commit.stamp)
        except asyncio.CancelledError:
            _answer(locked, StoreUndecided(reason=STOPPED) if locked.written else StoreUnavailable(reason=STOPPED))
            raise
        except Exception as failed:
            error = failed
        if error is None:
            _publish(locked)
        else:
            for each in locked.changed.values():
                each.discard()
        if durable:
            self._health.committed(began, sum([call.work for call in locked.calls]) if locked.written else 0)
            _answer(locked, None)
        else:
            assert error is not None
            self._health.failed("commit", error, len(locked.calls), began)
            reason = diagnose(error).reason
            _answer(locked, StoreUndecided(reason=reason) if durable is None else StoreUnavailable(reason=reason))

    def _apply(self, locked: Locked, began: float, found: Found) -> Commit | None:
        """Takes the steps, with what was found of their subjects at a moment or later. Returns what to write."""
        locked.found = found
        if found.service is not None:
            self._follow(found.service)
        locked.now = self._clock.now()
        for item in locked.items.values():
            if item is not None and not item.discarded and item.head is not found.heads.get(item.subject):
                try:
                    item.take_in(found, began)
                except Exception:  # a bug: it is loaded again
                    log.exception("what others have stored could not be taken in")
                    item.discard()
        # Those that came while another controller held the locks. Without one the wait is short, and all callers would
        # be answered by one commit, with nobody left to be served while the store writes the next.
        for _ in range(len(self._calls) if found.streams else 0):
            call = self._calls.popleft()
            joins = not call.creates and all(subject in locked.items for subject in call.subjects)
            (locked.calls if joins else self._calls).append(call)
        for call in locked.calls:
            locked.applied += 1
            if call.left():
                continue
            try:
                call.tell = call.context.run(call.take, locked)
            except (Cold, Refused) as error:
                call.error = error.with_traceback(None)
            except Exception as bug:
                call.error = bug
                self._spoil(locked, call.subjects)
        try:
            for item in locked.changed.values():
                if not item.discarded:
                    locked.written.append((item, item.write(locked.commit)))
        except Exception:  # a bug: nothing of this commit is written
            log.exception("changes could not be written")
            raise
        return locked.commit if locked.written or locked.commit.deleted else None

    def _spoil(self, locked: Locked, subjects: Iterable[Subject]) -> None:
        """Nothing is written of what a bug may have changed by half, nor of calls that changed any of that before."""
        for subject in set(subjects) - locked.spoiled:
            locked.spoiled.add(subject)
            for each in (locked.changed.get(subject), self.loaded(subject)):
                if each is not None:
                    each.discard()
            for call in locked.calls[: locked.applied]:
                if subject in call.subjects:
                    self._spoil(locked, call.subjects)


def _publish(locked: Locked) -> None:
    for item, publish in locked.written:
        try:
            publish()
        except Exception:  # a bug; the changes are durable, and are loaded again
            log.exception("durable changes could not be published; they will be loaded again")
            item.discard()


def _answer(locked: Locked, failure: StrandlineError | None) -> None:
    for call in locked.calls:
        failed = failure
        if failed is None and not locked.spoiled.isdisjoint(call.subjects):
            failed = StoreUnavailable(reason="another call of its stream or group failed")
        error = call.error if failed is None or not isinstance(call.error, Refused | None) else failed
        if call.left():
            continue
        if error is not None:
            call.fail(error)
        elif call.tell is not None:
            call.tell()
    if failure is None:
        locked.over.set_result(None)
    else:
        locked.over.set_exception(failure)
        locked.over.exception()  # marks it as retrieved, even if nobody waits


def _log_bug(done: asyncio.Future[Result]) -> None:
    error = None if done.cancelled() else done.exception()
    if error is not None and not isinstance(error, Cold | StrandlineError):
        log.error("a call for which nobody waits could not be applied", exc_info=error)
