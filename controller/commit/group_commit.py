"""Durable before answered: group commit, on rows that any controller may write.

    calls     wait, wait, wait ──────► apply ─┐            wait, wait ──► apply ─┐
    flusher   lock, look what others wrote    write, commit  lock, look          write, commit …

Nobody owns a stream or a reader group: memory is a cache of the store. Calls wait for their turn. One flusher locks the
heads of all that they are about in one transaction, and takes in what other controllers have written since. Then the
calls are applied in memory, one after the other and without waiting in between. What they changed is written and
committed, and the one future is resolved that all of these calls await. The flusher lets calls join that have arrived,
and never waits for more. Requests with many notes are applied after all others, a portion of each in turn, as far as
there is room; the rest waits for the next commit.

If a commit fails, memory is ahead of the store: what was applied is discarded, its calls raise StoreUnavailable, and
the next call loads it as the store has it. Calls that waited for the next turn are not affected. If COMMIT was sent and
not answered, the next lock of the same rows shows by its stamp whether it was carried out; only if that cannot be found
out in time the calls raise StoreUndecided.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

from controller.commit.health import StoreHealth
from controller.limits import DEFAULT_LIMITS
from controller.storage.diagnosis import diagnose
from controller.storage.heads import Head, Service, new_stamp
from controller.storage.news import Found, Known
from controller.storage.save import Commit
from controller.storage.subjects import Kind, Subject
from controller.storage.transaction import CommitUnknown
from strandline.errors import Overloaded, StoreUnavailable, StoreUndecided, StrandlineError

# Turns of the event loop for calls that have arrived to join: it reads them in one, and begins their handlers in a
# later one. Without them, 64 connections made commits of half as many calls, each of which costs about as much.
TURNS_TO_JOIN: Final = 3
FLUSH_NOTES: Final = 512  # of work in one commit; further portions of requests with many notes wait for the next
FLUSH_NOTES_BESIDE: Final = 256  # the same while calls that came alone wait for this commit or the next

log = logging.getLogger(__name__)


class Transactions(Protocol):
    """The store, as the flusher uses it."""

    async def lock(
        self, subjects: Collection[Subject], known: Mapping[Subject, Known], creating: Collection[Subject] = ()
    ) -> Found:
        """Begins a transaction that locks these."""

    async def commit(self, commit: Commit) -> None:
        """Writes everything, and ends it."""

    async def release(self) -> None:
        """Ends it without a change."""

    async def outcome(self, versions: Mapping[Subject, int], stamp: int) -> bool | None:
        """Whether the commit with this stamp became durable."""


class Unwritten(Protocol):
    """Something in memory that is ahead of the store until it is written: a stream or a reader group."""

    @property
    def subject(self) -> Subject:
        """Its kind and name."""

    @property
    def discarded(self) -> bool:
        """Whether it is no longer equal to the store: then it is not written."""

    def write(self, commit: Commit) -> Callable[[], None]:
        """Adds its changes to a commit; returns what to call once they are durable."""

    def discard(self) -> None:
        """Marks it as no longer equal to the store: its changes are not durable and never will be."""


class Cached(Unwritten, Protocol):
    """The same while it is in memory."""

    head: Head  # as of when it was last equal to the store
    compared_at: float  # when that was, by the event loop's clock

    @property
    def known(self) -> Known:
        """What it has of the store."""

    def take_in(self, found: Found, began: float) -> None:
        """Takes in what others have written since, as it was found at a moment or later; discards itself where that
        cannot be. Nothing of its own may be unwritten."""

    def begin_anew(self) -> bool:
        """After a restore of the store it fences everybody. Returns whether that has changed it."""


class Caches(Protocol):
    """The services that hold items in memory."""

    def find_loaded(self, name: str) -> Any | None:  # a stream or a group, as its service knows
        """The item if it is in memory."""


class SharedFuture(asyncio.Future[None]):
    """A future that many calls await.

    Cancelling a task cancels the future that it awaits, which here would cancel all other calls. So this future cannot
    be cancelled: a cancelled caller ends when the commit has ended. (A shield for each caller did the same, and cost
    more than the rest of the waiting.)
    """

    def cancel(self, msg: object | None = None) -> bool:
        return False


class Durable(SharedFuture):
    """Done when a batch is durable; all calls of the batch await this one future."""

    def give_up(self) -> None:
        """Cancels it for all calls."""
        asyncio.Future.cancel(self)


class Turn:
    """Calls that wait together, what they are about, and what becomes durable with them."""

    __slots__ = ("bug", "calls", "came", "creating", "done", "found", "portions", "subjects", "unwritten", "waiting")

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.subjects: dict[Subject, None] = {}
        self.creating: set[Subject] = set()
        self.waiting = 0  # calls that wait for it to come
        self.came = SharedFuture(loop=loop)  # calls may be applied
        self.done = Durable(loop=loop)
        self.found: Found | None = None
        self.unwritten: dict[Subject, Unwritten] = {}
        self.calls = 0  # that were applied
        self.bug: Exception | None = None  # which leaves open what a call has changed: then nothing is written
        self.portions: deque[tuple[Sequence[Subject], int, asyncio.Future[None]]] = deque()  # that wait to be applied

    def refuse(self, error: StrandlineError) -> None:
        for future in (self.came, self.done, *(came for *_, came in self.portions)):
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as retrieved, even if nobody waits


class Committer:
    """Gives calls their turns, collects what they change, and writes it."""

    def __init__(
        self,
        store: Transactions,
        follow: Callable[[Service], None],
        *,
        waiting_calls: int = DEFAULT_LIMITS.waiting_calls,
        health: StoreHealth | None = None,
    ) -> None:
        """`follow` is called with what the store says of time, whenever something was locked."""
        self._store = store
        self._follow = follow
        self.limit = waiting_calls
        self._health = health if health is not None else StoreHealth()
        self._find: dict[Kind, Callable[[str], Any | None]] = {}  # what finds an item in memory
        self._next = Turn()
        self._turn: Turn | None = None  # under way, from its lock to its commit
        self._open: Turn | None = None  # the same while calls may be applied
        self._kept: dict[Subject, Unwritten] = {}  # what is written as soon as it has its turn
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def serve(self, kind: Kind, caches: Caches) -> None:
        """From now on this service has what is in memory of a kind."""
        self._find[kind] = caches.find_loaded

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="committer")

    async def stop(self, seconds: float) -> bool:
        """Writes what is waiting, then ends. Returns whether it did in time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (turn := self._turn or (self._next if self._wanted.is_set() else None)) is not None:
            done, _ = await asyncio.wait([turn.done], timeout=max(0.0, until - loop.time()))
            if not done:
                break
            await asyncio.sleep(0)
        written = turn is None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        return written and self._health.up

    # -- turns ---------------------------------------------------------------------------------------------------

    def is_turn(self, *subjects: Subject) -> bool:
        """Whether calls about these may be applied now."""
        return self._open is not None and all(each in self._open.subjects for each in subjects)

    async def turn(self, *subjects: Subject, creating: bool = False) -> Found:
        """Waits until these are locked. Then a call may be applied, and join, without waiting in between. What is found
        tells which of them exist, and for those that may be created which epochs were given out before.

        Raises StoreUnavailable.
        """
        turn = self._open
        if turn is None or creating or not self.is_turn(*subjects):
            turn = self._next
            turn.subjects.update(dict.fromkeys(subjects))
            if creating:
                turn.creating.update(subjects)
            self._wanted.set()
            turn.waiting += 1
            try:
                await turn.came
            finally:
                turn.waiting -= 1
        assert turn.found is not None
        return turn.found

    async def portion(self, subjects: Sequence[Subject], work: int) -> None:
        """Waits until these are locked and a portion of a request with many calls may be applied, after those that came
        alone and after a portion of each other request. `work` counts in notes of one key.

        Raises StoreUnavailable.
        """
        turn = self._open
        if turn is None or not self.is_turn(*subjects):
            turn = self._next
            if turn.done.done():  # with an error: the controller has stopped
                await turn.done
            turn.subjects.update(dict.fromkeys(subjects))
            self._wanted.set()
        came = asyncio.get_running_loop().create_future()
        turn.portions.append((subjects, work, came))
        await came

    def cached(self, subject: Subject) -> Cached | None:
        """What is in memory of a stream or a group."""
        return self._find[subject.kind](subject.name)

    def ready(self, subject: Subject) -> Any | None:  # a stream or a group, as its service knows
        """The item if it is in memory and locked, and it is the turn of calls about it."""
        turn = self._open
        if turn is None or subject not in turn.subjects or turn.found is None:
            return None
        cached = self._find[subject.kind](subject.name)
        if cached is None or cached is turn.unwritten.get(subject):  # such as one that was created in this turn
            return cached
        # One that was loaded since this turn came may be older than what is locked.
        head = turn.found.heads.get(subject)
        return cached if cached.head is head or not cached.head.differs(head) else None

    async def in_turn(self, subject: Subject, load: Callable[[str], Awaitable[object]]) -> Any:
        """A stream or group that is in memory, when it is the turn of calls about it. `load` loads one that is not:
        before it is locked, so that nobody waits for that."""
        while True:
            if self._find[subject.kind](subject.name) is None:
                await load(subject.name)
            await self.turn(subject)
            found = self.ready(subject)
            if found is not None:
                return found

    async def before_creation(
        self, subject: Subject, load: Callable[[str], Awaitable[object]]
    ) -> tuple[Any | None, int]:
        """What there is under a name, when something may be created there; if that is nothing, the greatest epoch that
        earlier ones of the name gave out."""
        while True:
            await load(subject.name)
            locked = await self.turn(subject, creating=True)
            found = self.ready(subject)
            if found is not None or subject not in locked.heads:
                return found, locked.epochs.get(subject, 0)

    def admit(self, calls: int = 1) -> None:
        """Raises Overloaded if too many calls are waiting. Call it before applying anything."""
        waiting = self.waiting
        if waiting + calls > self.limit and waiting:
            raise Overloaded(waiting=waiting, limit=self.limit)

    @property
    def waiting(self) -> int:
        """The number of calls that wait for their turn, or are applied and not yet durable."""
        turn = self._turn
        return self._next.waiting + (0 if turn is None else turn.waiting + turn.calls)

    def pending(self, subject: Subject) -> Durable | None:
        """Done when the turn of calls about it that is under way has ended, and what they changed is durable. None
        without one."""
        turn = self._turn
        return turn.done if turn is not None and subject in turn.subjects else None

    async def turn_over(self) -> None:
        """Returns when everything that was applied in this turn is durable: a refusal rests on it."""
        if self._turn is not None:
            await self._turn.done

    def keep(self, unwritten: Unwritten) -> None:
        """Adds what has changed to the next commit that can have it, without waiting for it. Outside of its turn only
        the journal may have changed."""
        if self.is_turn(unwritten.subject) and self._open is not None:
            self._open.unwritten[unwritten.subject] = unwritten
            return
        self._kept[unwritten.subject] = unwritten
        self._next.subjects[unwritten.subject] = None
        self._wanted.set()

    def join(self, unwritten: Unwritten, calls: int = 1) -> Durable:
        """Adds what a call changed in its turn, or several calls; the returned future is done when it is durable."""
        turn = self._open
        assert turn is not None and unwritten.subject in turn.subjects, unwritten.subject
        turn.unwritten[unwritten.subject] = unwritten
        turn.calls += calls
        return turn.done

    def undo(self, unwritten: Unwritten, bug: Exception) -> None:
        """Undoes the turn of a call that has failed by a bug: it may have changed anything by half."""
        turn = self._open
        if turn is not None and unwritten.subject in turn.subjects:
            unwritten.discard()
            turn.unwritten[unwritten.subject], turn.bug = unwritten, bug

    async def settled(self) -> None:
        """Returns when everything that waits now is written, or has failed."""
        while self._turn is not None or self._wanted.is_set():
            await asyncio.wait([(self._turn or self._next).done])
            await asyncio.sleep(0)

    # -- the flusher ---------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                await self._wanted.wait()
                for _ in range(TURNS_TO_JOIN):
                    await asyncio.sleep(0)
                self._wanted.clear()
                self._turn, self._next = self._next, Turn()
                await self._commit(self._turn)
                self._turn = self._open = None
        finally:  # later calls will not be written, and their futures cannot be cancelled: they must get an error
            error = StoreUnavailable(reason="the controller has stopped")
            for turn in (self._turn, self._next):
                if turn is not None:
                    turn.refuse(error)

    async def _commit(self, turn: Turn) -> None:
        began, locked_at = self._health.begin(), asyncio.get_running_loop().time()
        try:
            found = await self._store.lock(turn.subjects.keys(), self._known(turn), turn.creating)
        except Exception as error:
            turn.refuse(StoreUnavailable(reason=diagnose(error).reason))
            self._health.failed("commit", error, turn.waiting, began)
            return
        try:
            await self._apply(turn, found, locked_at)
            if turn.unwritten:
                await self._write(turn, began)
            else:
                await self._store.release()
                self._health.committed(began, 0)
                turn.done.set_result(None)
        except asyncio.CancelledError:
            turn.done.give_up()
            raise

    def _known(self, turn: Turn) -> dict[Subject, Known]:
        known = {}
        for subject in turn.subjects:
            if (cached := self._find[subject.kind](subject.name)) is not None:
                known[subject] = cached.known
        return known

    async def _apply(self, turn: Turn, found: Found, locked_at: float) -> None:
        """Takes in what others have written, and lets all calls have their turn that wait for it."""
        if found.service is not None:
            self._follow(found.service)
        for subject in turn.subjects:
            cached: Cached | None = self._find[subject.kind](subject.name)
            if cached is not None:
                if cached.head is not found.heads.get(subject):  # else nobody has written it
                    try:
                        cached.take_in(found, locked_at)
                    except Exception:  # a bug: it is loaded again
                        log.exception("what others have stored could not be taken in")
                        cached.discard()
                if cached.head.restored_at is not None and cached.begin_anew():
                    turn.unwritten[subject] = cached
            kept = self._kept.pop(subject, None)
            if cached is not None and kept is cached and not cached.discarded:
                turn.unwritten[subject] = cached
        turn.found, self._open = found, turn
        turn.came.set_result(None)
        while turn.waiting:
            await asyncio.sleep(0)
        alone = done = turn.calls
        while turn.portions and done < (FLUSH_NOTES_BESIDE if alone or self._next.waiting else FLUSH_NOTES):
            _, work, came = turn.portions.popleft()
            if not came.done():
                done += work
                came.set_result(None)
                await asyncio.sleep(0)  # the request applies it, and adds its next one
        self._open = None
        while turn.portions:  # before those that have come for the next turn meanwhile
            subjects, *_ = left = turn.portions.pop()
            self._next.subjects.update(dict.fromkeys(subjects))
            self._next.portions.appendleft(left)
            self._wanted.set()

    async def _write(self, turn: Turn, began: float) -> None:
        try:
            if turn.bug is not None:
                raise turn.bug
            commit, written = Commit(new_stamp()), list[tuple[Unwritten, Callable[[], None]]]()
            for each in turn.unwritten.values():
                if not each.discarded:
                    written.append((each, each.write(commit)))
        except Exception as error:  # a bug: whatever it was about is loaded again
            log.exception("changes could not be written")
            await self._store.release()
            _discard(turn)
            self._fail(turn, error, began)
            return
        try:
            await self._store.commit(commit)
        except Exception as error:
            _discard(turn)
            outcome: bool | None = False
            if isinstance(error, CommitUnknown):
                outcome = await self._store.outcome(commit.versions, commit.stamp)
            if not outcome:
                self._fail(turn, error, began, undecided=outcome is None)
                return
            written = []  # it is loaded again
        self._health.committed(began, turn.calls)
        for unwritten, publish in written:
            try:
                publish()
            except Exception:  # a bug; the changes are durable, and are loaded again
                log.exception("durable changes could not be published; they will be loaded again")
                unwritten.discard()
        if not turn.done.done():
            turn.done.set_result(None)

    def _fail(self, turn: Turn, error: Exception, began: float, *, undecided: bool = False) -> None:
        reason = diagnose(error).reason
        turn.refuse(StoreUndecided(reason=reason) if undecided else StoreUnavailable(reason=reason))
        self._health.failed("commit", error, turn.calls, began)


def _discard(turn: Turn) -> None:
    for unwritten in turn.unwritten.values():
        unwritten.discard()
