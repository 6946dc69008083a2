"""Durable before answered: one loop commits the calls of all, on rows that any controller may write.

    calls   wait ─────────────────────────────────────────► answered      wait ─► …
    loop    take · lock · take in what others wrote · apply · write · commit · answer       take · …

Nobody owns a stream or a reader group: memory is a cache of the store. A call is about some of them, its subjects, and
has a step, which changes them in memory. The loop takes the calls that wait, and locks the heads of their subjects in
one transaction. Then it takes in what other controllers have written since, applies one step after the other without
waiting in between, writes what they changed, commits, and answers all. What a step may change it finds in the turn and
only there. Calls that come while the loop waits for its locks are applied with the others if their subjects are locked.

A step that finds a subject not in memory, or other than it is locked, raises Cold: its caller loads it, outside of any
lock, and calls again. Requests with many notes wait behind all others, a portion of each in turn, as far as there is
room.

If a commit fails, memory is ahead of the store: what was changed is discarded, and the calls of the turn raise
StoreUnavailable. Those that came later are not affected. If COMMIT was sent and not answered, the next lock of the same
rows shows by its stamp whether it was carried out; only if that cannot be found out in time the calls raise
StoreUndecided. A refusal is told after the commit too: it rests on what that makes durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import copy_context
from functools import partial
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from controller.clock import Clock
from controller.commit.health import StoreHealth
from controller.limits import DEFAULT_LIMITS
from controller.storage.diagnosis import diagnose
from controller.storage.heads import Head, Service, new_stamp
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
UNAWAITED_CALLS: Final = 256  # for which nobody waits, in one commit

STOPPED: Final = "the controller has stopped"

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Cold(Exception):
    """What a call is about is not in memory, or not as it is locked: its caller loads it, and calls again."""


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


Item = TypeVar("Item", bound=Cached)
Kept = TypeVar("Kept", bound=Cached, covariant=True)


class Caches(Protocol[Kept]):
    """What is in memory of a kind."""

    def find_loaded(self, name: str) -> Kept | None:
        """The item if it is in memory."""


class Transactions(Protocol):
    """The store, as the loop uses it."""

    async def transact(
        self,
        subjects: Collection[Subject],
        known: Mapping[Subject, Known],
        creating: Collection[Subject],
        apply: Callable[[Found], Commit | None],
    ) -> None:
        """Locks the subjects, has what was found applied in the event loop's thread, writes what that returns, and
        commits."""

    async def outcome(self, versions: Mapping[Subject, int], stamp: int) -> bool | None:
        """Whether the commit with this stamp became durable."""


class Waiting(Protocol):
    """A call, whatever it returns."""

    subjects: tuple[Subject, ...]
    creates: bool
    work: int
    left: Callable[[], bool]  # whether its caller has left

    def apply(self, turn: Turn) -> None:
        """Takes its step. Raises only what is a bug."""

    def tell(self, failure: Exception | None = None) -> None:
        """Tells the caller what came of it, or why nothing of the turn became durable."""


class Turn:
    """The calls that are applied together, and what is locked for them. A step finds in it what it may change, and must
    not keep that."""

    __slots__ = (
        "applied",
        "calls",
        "changed",
        "commit",
        "creating",
        "found",
        "now",
        "over",
        "spoiled",
        "subjects",
        "written",
    )

    def __init__(self, calls: list[Waiting], over: asyncio.Future[None]) -> None:
        self.calls = calls
        self.subjects: dict[Subject, Cached | None] = {}  # and what was in memory before they were locked
        self.creating: list[Subject] = []
        for call in calls:
            self.subjects.update(dict.fromkeys(call.subjects))
            if call.creates:
                self.creating += call.subjects
        self.found = Found({})
        self.now = 0  # the clock's time, once everything is locked
        self.applied = 0  # of the calls
        self.changed: dict[Subject, Unwritten] = {}
        self.spoiled: set[Subject] = set()  # by a bug, which leaves open what a step has changed: nothing is written
        self.commit = Commit(new_stamp())
        self.written: list[tuple[Unwritten, Callable[[], None]]] = []  # and how it is published
        self.over = over  # done when what was changed is durable, or failed

    def item(self, caches: Caches[Item], subject: Subject) -> Item:
        """A subject of the call, as it is locked or changed since. Raises Cold."""
        item, head = caches.find_loaded(subject.name), self.found.heads.get(subject)
        # What was created in this turn has no head that is stored.
        if item is None or (item.head is not head and item.head.differs(head) and subject not in self.changed):
            raise Cold
        return item

    def exists(self, subject: Subject) -> bool:
        """Whether the store has what is to be created."""
        return subject in self.found.heads

    def epochs(self, subject: Subject) -> int:
        """The greatest epoch that earlier ones of a name gave out which is to be created."""
        return self.found.epochs.get(subject, 0)

    def change(self, item: Unwritten) -> None:
        """Has what a step changed written with this turn."""
        self.changed[item.subject] = item


Step: TypeAlias = Callable[[Turn], Result]  # never waits; raises what is refused


class Portions:
    """A request with many calls: they are applied in their order, in turns with those of other requests. After one that
    was not applied, none is."""

    def __init__(self) -> None:
        self.calls: deque[Waiting] = deque()
        self.broken = False


class Call(Generic[Result]):
    """A step, and who waits for it."""

    __slots__ = ("_context", "_error", "_request", "_result", "_step", "creates", "done", "left", "subjects", "work")

    def __init__(
        self,
        subjects: tuple[Subject, ...],
        step: Step[Result],
        *,
        creates: bool = False,
        request: Portions | None = None,
        work: int = 1,
    ) -> None:
        self.subjects = subjects
        self.creates = creates
        self.work = work
        self.done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.left: Callable[[], bool] = self.done.done
        self._step = step
        self._request = request
        self._context = copy_context()
        self._error: Exception | None = None
        self._result: Result

    def apply(self, turn: Turn) -> None:
        try:
            if self._request is not None and self._request.broken:
                raise Cold
            self._result = self._context.run(self._step, turn)
        except (Cold, Refused) as error:
            self._error = error.with_traceback(None)
            self._break(isinstance(error, Cold))
        except Exception as bug:
            self._error = bug
            self._break(True)
            raise

    def tell(self, failure: Exception | None = None) -> None:
        self._break(failure is not None)
        error = self._error
        if failure is not None and (error is None or isinstance(error, Refused)):
            error = failure
        if self.done.done():
            return
        if error is None:
            self.done.set_result(self._result)
        else:
            self.done.set_exception(error)

    def _break(self, broken: bool) -> None:
        if broken and self._request is not None:
            self._request.broken = True


class CommitLoop:
    """Applies calls, and makes what they change durable."""

    def __init__(
        self,
        store: Transactions,
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
        self._caches: dict[Kind, Caches[Cached]] = {}
        self._calls: list[Waiting] = []
        self._unawaited: deque[Waiting] = deque()
        self._requests: deque[Portions] = deque()  # of which portions wait
        self._wanted = asyncio.Event()
        self._turn: Turn | None = None  # under way
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    def serve(self, kind: Kind, caches: Caches[Cached]) -> None:
        """From now on this is what is in memory of a kind."""
        self._caches[kind] = caches

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="commits")

    async def stop(self, seconds: float) -> bool:
        """Commits what is waiting, then ends. Returns whether it did in time."""
        settled = asyncio.create_task(self.settled())
        await asyncio.wait([settled], timeout=seconds)
        tasks = [task for task in (settled, self._task) if task is not None]
        written = settled.done()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return written and self._health.up

    # -- calls ---------------------------------------------------------------------------------------------------

    def call(self, *subjects: Subject, step: Step[Result], creates: bool = False) -> asyncio.Future[Result]:
        """Takes a step under the locks of its subjects. The future has its result when everything is durable; it raises
        what the step raises, Cold, StoreUnavailable and StoreUndecided.

        Raises Overloaded if too many calls are waiting.
        """
        if len(self._calls) >= self.limit:
            raise Overloaded(waiting=len(self._calls), limit=self.limit)
        call = Call(subjects, step, creates=creates)
        self._calls.append(call)
        return self._want(call)

    def portion(self, request: Portions, *subjects: Subject, step: Step[Result], work: int) -> asyncio.Future[Result]:
        """The same of a portion of a request with many calls. `work` counts in notes of one key."""
        call = Call(subjects, step, request=request, work=work)
        if not request.calls:
            self._requests.append(request)
        request.calls.append(call)
        return self._want(call)

    def soon(self, *subjects: Subject, step: Step[Result]) -> asyncio.Future[Result]:
        """The same where nobody waits for it."""
        call = Call(subjects, step)
        call.done.add_done_callback(_log_bug)
        self._unawaited.append(call)
        return self._want(call)

    def _want(self, call: Call[Result]) -> asyncio.Future[Result]:
        if self._ended:
            raise StoreUnavailable(reason=STOPPED)
        self._wanted.set()
        return call.done

    @property
    def waiting(self) -> int:
        """The number of calls that wait for the next turn."""
        return len(self._calls)

    def cached(self, subject: Subject) -> Cached | None:
        """What is in memory of a stream or a group."""
        return self._caches[subject.kind].find_loaded(subject.name)

    def under_way(self, subject: Subject) -> asyncio.Future[None] | None:
        """Done when the turn of calls about it that is under way is over, and what they changed is durable; it raises
        why that has failed. None without one."""
        turn = self._turn
        return turn.over if turn is not None and subject in turn.subjects else None

    async def over(self, subject: Subject) -> None:
        """Returns when that is over; raises why it has failed."""
        under_way = self.under_way(subject)
        if under_way is not None:
            await asyncio.wait([under_way])  # others wait for it too: who leaves must not cancel it
            under_way.result()

    async def settled(self) -> None:
        """Returns when everything that waits now is durable, or has failed."""
        while self._turn is not None or self._wanted.is_set():
            if self._turn is not None:
                await asyncio.wait([self._turn.over])
            await asyncio.sleep(0)

    # -- the loop ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                await self._wanted.wait()
                for _ in range(TURNS_TO_JOIN):
                    await asyncio.sleep(0)
                self._turn = Turn(self._take(), asyncio.get_running_loop().create_future())
                if self._turn.calls:
                    await self._commit(self._turn)
                self._turn = None
        finally:  # nothing is applied any more
            self._ended = True
            portions = [call for request in self._requests for call in request.calls]
            for call in (*self._calls, *self._unawaited, *portions):
                call.tell(StoreUnavailable(reason=STOPPED))

    def _take(self) -> list[Waiting]:
        """The calls of the next turn: all that came alone, and some of the others."""
        calls, self._calls = self._calls, []
        room = FLUSH_NOTES_BESIDE if calls else FLUSH_NOTES
        for _ in range(min(UNAWAITED_CALLS, len(self._unawaited))):
            calls.append(self._unawaited.popleft())
        while self._requests and room > 0:
            request = self._requests.popleft()
            call = request.calls.popleft()
            if request.calls:
                self._requests.append(request)
            if not call.left():
                calls.append(call)
                room -= call.work
        if not self._unawaited and not self._requests:
            self._wanted.clear()
        return calls

    async def _commit(self, turn: Turn) -> None:
        began, known = self._health.begin(), dict[Subject, Known]()
        for subject in turn.subjects:
            turn.subjects[subject] = cached = self.cached(subject)
            if cached is not None:
                known[subject] = cached.known
        apply = partial(self._apply, turn, asyncio.get_running_loop().time())
        error: Exception | None = None
        durable: bool | None = True
        try:
            await self._store.transact(turn.subjects.keys(), known, turn.creating, apply)
        except asyncio.CancelledError:
            self._answer(turn, StoreUndecided(reason=STOPPED) if turn.written else StoreUnavailable(reason=STOPPED))
            raise
        except CommitUnknown as unknown:
            error, durable = unknown, await self._store.outcome(turn.commit.versions, turn.commit.stamp)
        except Exception as failed:
            error, durable = failed, False
        if error is None:
            _publish(turn)
        else:
            for each in turn.changed.values():
                each.discard()
        if durable:
            self._health.committed(began, len(turn.calls) if turn.written else 0)
            self._answer(turn, None)
        else:
            assert error is not None
            self._health.failed("commit", error, len(turn.calls), began)
            reason = diagnose(error).reason
            self._answer(turn, StoreUndecided(reason=reason) if durable is None else StoreUnavailable(reason=reason))

    def _apply(self, turn: Turn, began: float, found: Found) -> Commit | None:
        """Applies the calls of a turn, whose subjects were found so at a moment or later. Returns what to write."""
        turn.found = found
        if found.service is not None:
            self._follow(found.service)
        turn.now = self._clock.now()
        for subject, cached in turn.subjects.items():
            if cached is None or cached.discarded:
                continue
            if cached.head is not found.heads.get(subject):  # else nobody has written it
                try:
                    cached.take_in(found, began)
                except Exception:  # a bug: it is loaded again
                    log.exception("what others have stored could not be taken in")
                    cached.discard()
            if cached.head.restored_at is not None and cached.begin_anew():
                turn.change(cached)
        came, self._calls = self._calls, []  # while the loop waited for its locks
        for call in came:
            join = not call.creates and all(subject in turn.subjects for subject in call.subjects)
            (turn.calls if join else self._calls).append(call)
        for call in turn.calls:
            if not call.left():
                try:
                    call.apply(turn)
                except Exception:  # a bug: its caller is told
                    self._spoil(turn, call.subjects)
            turn.applied += 1
        for each in turn.changed.values():
            if not each.discarded:
                turn.written.append((each, each.write(turn.commit)))
        return turn.commit if turn.written else None

    def _spoil(self, turn: Turn, subjects: Iterable[Subject]) -> None:
        """Nothing is written of what a bug may have changed by half, nor of calls that changed any of that before."""
        for subject in set(subjects) - turn.spoiled:
            turn.spoiled.add(subject)
            for each in (turn.changed.get(subject), self.cached(subject)):
                if each is not None:
                    each.discard()
            for call in turn.calls[: turn.applied]:
                if subject in call.subjects:
                    self._spoil(turn, call.subjects)

    def _answer(self, turn: Turn, failure: StrandlineError | None) -> None:
        spoiled = StoreUnavailable(reason="another call of its stream or group failed")
        for call in turn.calls:
            call.tell(failure if turn.spoiled.isdisjoint(call.subjects) else failure or spoiled)
        if failure is None:
            turn.over.set_result(None)
        else:
            turn.over.set_exception(failure)
            turn.over.exception()  # marks it as retrieved, even if nobody waits


def _log_bug(done: asyncio.Future[Result]) -> None:
    error = None if done.cancelled() else done.exception()
    if error is not None and not isinstance(error, Cold | StrandlineError):
        log.error("a call for which nobody waits could not be applied", exc_info=error)


def _publish(turn: Turn) -> None:
    for item, publish in turn.written:
        try:
            publish()
        except Exception:  # a bug; the changes are durable, and are loaded again
            log.exception("durable changes could not be published; they will be loaded again")
            item.discard()
