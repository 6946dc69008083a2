"""One controller as a member of the cluster: everything that it decides about its lease, its shards and its calls.

A driver owns the connections and the clock. It tells the member what happened, each with the present moment of its
monotonic clock in milliseconds, and then does what `due` returns:

    answer, failure, commit, signal ──► Member ──► due ──► requests to the store, hand over, drop, stop
    call ──────────────────────────────► route ──► serve, hold, pass on, refuse

A lost lease, a store that was away, a process that was stopped and a takeover are one case: the member drops all that
it has in memory and begins anew under another id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final

from controller.cluster.actions import (
    Action,
    CallRoute,
    CommitOutcome,
    CommitParts,
    Drop,
    HandOver,
    Hold,
    PassOn,
    Refusal,
    Refuse,
    Serve,
    Stop,
)
from controller.cluster.cluster_view import ClusterView, SeenController
from controller.cluster.events import (
    AddressShared,
    Drained,
    LeaseLost,
    MemberEvent,
    OtherEnded,
    ShardsReleased,
    ShardsTaken,
    StartedOver,
)
from controller.cluster.lease import Lease
from controller.cluster.owned_shards import OwnedShards
from controller.cluster.records import (
    LEASE_MS,
    Adopt,
    Beat,
    BeatAnswer,
    Begin,
    Check,
    ControllerRow,
    End,
    Identity,
    Leave,
    NameTaken,
    Release,
    Take,
    Taken,
)
from controller.cluster.shards import shards_to_hand_over, shards_to_take
from controller.cluster.silence import Hearing
from controller.cluster.store_clock import StoreClock

BEAT_MS: Final = 500  # between two beats of a controller
HELD_CALL_MS: Final = 500  # how long a call waits for a shard that is being handed over

FREE_SHARDS_CHECK_MS: Final = 100  # between two beats of a controller that is to get shards which others have
BEAT_RETRY_MS: Final = 200  # after a beat or a begin that failed
HANDED_OVER_SHARDS: Final = 16  # by one controller in a beat, to those that have fewer
DRAIN_PARTS: Final = 12  # in which a controller that stops hands its shards over
DRAIN_PAUSE_MS: Final = 100  # between two of them: the others load the streams of one meanwhile


class MemberPhase(Enum):
    """What a member is doing."""

    BEGINNING = auto()  # it has no lease, and asks for one
    SERVING = auto()
    STOPPED = auto()  # for good


class Member:
    """The state machine. One request of each kind is under way at most: a begin, a beat, a commit, and one other."""

    def __init__(
        self,
        identity: Identity,
        new_id: Callable[[], int],
        observe: Callable[[MemberEvent], None] = lambda _: None,
    ) -> None:
        """`new_id` returns a random id that no controller had before. `observe` is told what has happened."""
        self.identity = identity
        self.id = 0
        self.phase = MemberPhase.BEGINNING
        self.draining = False
        self.clock = StoreClock()
        self.owned = OwnedShards()
        self._new_id = new_id
        self._observe = observe
        self._begin: Begin | None = None  # to be sent until it is answered
        self._begin_sent: int | None = None  # when it was sent, while it is under way
        self._retry_at = 0  # the next request after one that failed
        self._lease = Lease(0)
        self._view: ClusterView
        self._beat_sent: int | None = None
        self._beat_at = 0  # when to send the next beat
        self._asked: End | Take | Adopt | Leave | None = None  # under way
        self._unsettled = False  # a session was lost with a commit under way
        self._knows_shards = False  # the shards are known as of after the last take
        self._sharing: set[int] = set()  # others with the same address
        self._hand_over_at = 0
        self._part = HANDED_OVER_SHARDS  # so many shards are handed over at once
        self._commit: CommitParts | None = None
        self._hearing = Hearing()
        self._for_due: list[Action] = []  # to be returned by `due`

    # -- what to do ----------------------------------------------------------------------------------------------

    def due(self, monotonic: int) -> tuple[Action, ...]:
        """What to do now. Call it after every event, and at `next_due`. A request that is returned counts as sent."""
        serving = self.may_serve(monotonic)
        if serving:
            self._decide(monotonic)
        actions, self._for_due = self._for_due, []
        if self.phase is MemberPhase.BEGINNING and self._begin_sent is None and monotonic >= self._retry_at:
            actions.append(self._ask_to_begin(monotonic))
        return tuple(actions)

    def next_due(self) -> int | None:
        """When to call `due` next if nothing happens before. None: only when something has happened."""
        match self.phase:
            case MemberPhase.STOPPED:
                return None
            case MemberPhase.BEGINNING:
                return self._retry_at if self._begin_sent is None else None
            case MemberPhase.SERVING:
                return min(self._moments())

    def _moments(self) -> Iterator[int]:
        """When a member with a lease has something to do, as far as time alone decides it."""
        yield self._lease.until
        if self._beat_sent is None:
            yield self._beat_at
        if self._asked is None:
            silent_at = self._view.next_silent_at()
            if silent_at is not None:
                yield max(silent_at, self._retry_at)
            if self._unsettled or self._may_leave():
                yield self._retry_at
        if self._surplus():
            may_close = self.draining or self.owned.closing()
            yield max(self._hand_over_at, 0 if may_close else self._view.quiet_at)

    def _decide(self, monotonic: int) -> None:
        """What a member with a lease does."""
        if self._beat_sent is None and monotonic >= self._beat_at:
            self._beat_sent, self._beat_at = monotonic, monotonic + BEAT_MS
            self._for_due.append(self._beat(monotonic))
        if self._asked is None and monotonic >= self._retry_at:
            self._asked = self._next_request(monotonic)
            if self._asked is not None:
                self._for_due.append(self._asked)
        if self._surplus() and monotonic >= self._hand_over_at:
            self._hand_over(monotonic)

    def _beat(self, monotonic: int) -> Beat:
        served = self._hearing.until(self.clock.now(monotonic))
        return Beat(self.id, served, self.draining, self._view.version)

    def _next_request(self, monotonic: int) -> End | Take | Adopt | Leave | None:
        if self._unsettled:
            return Adopt(self.id)
        for other, beat in self._view.silent(monotonic):
            return End(other, beat)
        if self.draining:
            return Leave(self.id, self.clock.shown) if self._may_leave() else None
        if not self._knows_shards:
            return None
        takers = self._view.takers
        free = [shard for shard in self._view.free() if shard not in self.owned]
        place = takers.index(self.id) if self.id in takers else 0
        wanted = shards_to_take(free, len(self.owned), self._view.share, place, len(takers) or 1)
        if not wanted:
            return None
        self._knows_shards = False
        return Take(self.id, wanted, self.clock.now(monotonic))

    def _may_leave(self) -> bool:
        return self.draining and not self.owned and self._commit is None

    # -- beginning and ending ------------------------------------------------------------------------------------

    def _ask_to_begin(self, monotonic: int) -> Begin:
        if self._begin is None:
            previous = self.id or None
            restart = previous is None
            self._begin = Begin(self._new_id(), self.identity, previous, restart, clock_shown=self.clock.shown)
        self._begin_sent = monotonic
        return self._begin

    def begun(self, monotonic: int, begin: Begin, answer: BeatAnswer | NameTaken) -> None:
        """The answer to a begin."""
        if self._begin is not begin or self._begin_sent is None or self.phase is not MemberPhase.BEGINNING:
            return
        sent, self._begin, self._begin_sent = self._begin_sent, None, None
        if isinstance(answer, NameTaken):
            self._stop(answer.by)
            return
        self.id = begin.id
        own = answer.row_of(begin.id)
        if own is None or own.ended_at is not None or answer.shards is None:
            return  # it was done long ago, and ended by another controller since: the next begin follows it
        if answer.store_now - own.served_until >= LEASE_MS:
            return  # it was done long ago, and nobody could be heard since: the next begin counts that time as unserved
        self.phase = MemberPhase.SERVING
        self._lease = Lease.begun(sent)
        self.clock = StoreClock()
        self.clock.learn(answer.store_now, monotonic)
        self.clock.grant(own.clock_bound)
        self._hearing = self._hearing.of_new_lease(self.clock.now(monotonic))
        self._view = ClusterView(self.id, answer, monotonic)
        self._observe_sharing()
        self.owned.take(self._view.shards_of(self.id))
        self._knows_shards = True
        self._beat_at = sent + BEAT_MS
        if begin.previous is not None:
            self._observe(StartedOver(len(self.owned)))
        elif self.owned:
            self._observe(ShardsTaken(len(self.owned), {self.identity.name: len(self.owned)}))

    def begin_failed(self, monotonic: int, begin: Begin) -> None:
        """A begin got no answer: the store may have done it."""
        if self._begin is begin:
            self._begin_sent = None
            self._retry_at = monotonic + BEAT_RETRY_MS

    def start_over(self) -> None:
        """Nothing that is in memory may be trusted any more: the lease is over, or the store is another one.

        A driver calls it when a new connection finds the store on another timeline.
        """
        if self.phase is not MemberPhase.SERVING:
            return
        self._observe(LeaseLost(len(self.owned)))
        self._drop(self.owned.shards())
        self.owned.clear()
        self.phase = MemberPhase.BEGINNING
        self._commit = self._asked = self._beat_sent = None
        self._unsettled = False  # a begin waits for what the lost session had under way
        self._retry_at = 0
        if self.draining:
            self._stop(None)

    def drain(self, monotonic: int) -> None:
        """This controller is to stop: it hands all shards over, ends its row and then stops.

        Others learn it from their next beat, and then look often. Until then it goes on to serve, so that nobody waits
        longer for a shard than for the next look. It hands over a part at a time, and pauses: whoever takes a part
        loads its streams meanwhile, so that no stream waits for the loads of all.
        """
        if not self.draining:
            self.draining = True
            if self.phase is MemberPhase.BEGINNING:
                self._stop(None)
                return
            self._beat_at = 0
            self._part = max(1, -(-len(self.owned) // DRAIN_PARTS))
            self._hand_over_at = monotonic + BEAT_MS + FREE_SHARDS_CHECK_MS if self._view.others_take else 0

    def _stop(self, replaced_by: ControllerRow | None) -> None:
        self.phase = MemberPhase.STOPPED
        self._for_due.append(Stop(replaced_by))

    def may_serve(self, monotonic: int) -> bool:
        """Whether this member has a lease. Every entry asks first: the process may have been stopped for any time."""
        if self.phase is MemberPhase.SERVING and not self._lease.runs(monotonic):
            self.start_over()
        return self.phase is MemberPhase.SERVING

    # -- answers of the store ------------------------------------------------------------------------------------

    def beat_answered(self, monotonic: int, beat: Beat, answer: BeatAnswer) -> None:
        """The answer to a beat. An answer that comes when the lease is over does not bring it back."""
        if not self.may_serve(monotonic) or beat.id != self.id or self._beat_sent is None:
            return
        sent, self._beat_sent = self._beat_sent, None
        own = answer.row_of(self.id)
        if own is None or own.ended_at is not None:
            if isinstance(self._asked, Leave):
                self.left(monotonic, self._asked)  # its own answer is still to come
            else:
                self.start_over()  # which finds out whether another one has the name
            return
        if not self._learn_time(answer.store_now, monotonic):
            return
        self._lease.extend(sent)
        self.clock.grant(own.clock_bound)
        self._view.learn(answer, monotonic)
        self._observe_sharing()
        self.owned.adopt_newer(self._view.shards_of(self.id))
        self._knows_shards = True
        if self._waits_for_shards():
            self._beat_at = min(self._beat_at, sent + FREE_SHARDS_CHECK_MS)

    def beat_failed(self, monotonic: int, beat: Beat) -> None:
        """A beat got no answer."""
        if beat.id == self.id and self._beat_sent is not None:
            self._beat_sent = None
            self._beat_at = monotonic + BEAT_RETRY_MS

    def ended(self, monotonic: int, end: End, ended: bool) -> None:
        """The answer to an end: whether the other controller has ended."""
        if self._answered(monotonic, end):
            if ended:
                row = self._view.row_of(end.id)
                self._view.has_ended(end.id, monotonic)
                if row is not None:
                    self._observe(OtherEnded(row))
            else:
                self._view.is_alive(end.id, monotonic)

    def taken(self, monotonic: int, take: Take, answer: Taken) -> None:
        """The answer to a take."""
        if self._answered(monotonic, take) and self._learn_time(answer.store_now, monotonic):
            self._observe_taken([row.id for row in answer.shards])
            for row in answer.shards:
                self._view.was_taken(row)
            self.owned.adopt_newer(answer.shards)

    def _learn_time(self, store_now: int, monotonic: int) -> bool:
        """Takes the time of an answer; returns whether this member goes on.

        If the store's clock is a lease ahead of what it can be, that clock was set, or this host was suspended and its
        monotonic clock stood still. The writers were not silent for that long: who begins anew adds what nobody served.
        """
        if store_now - self.clock.estimate(monotonic) < LEASE_MS:
            self.clock.learn(store_now, monotonic)
            return True
        self.start_over()
        return False

    def _observe_sharing(self) -> None:
        sharing = self._view.sharing(self.identity.address)
        for row in sharing:
            if row.id not in self._sharing:
                self._observe(AddressShared(row))
        self._sharing = {row.id for row in sharing}

    def _observe_taken(self, shards: list[int]) -> None:
        former = Counter(self._view.last_owner_of(shard) for shard in shards)
        rows = {owner: self._view.ended(owner) for owner in former if owner is not None}
        ended = {row.name: former[owner] for owner, row in rows.items() if row is not None}
        if shards:
            self._observe(ShardsTaken(len(shards), ended))

    def adopted(self, monotonic: int, adopt: Adopt, answer: Taken) -> None:
        """The answer to an adopt: what the lost session had under way is over, and these are the own shards."""
        if self._answered(monotonic, adopt) and self._learn_time(answer.store_now, monotonic):
            self._unsettled = False
            self.owned.take(answer.shards)

    def left(self, monotonic: int, leave: Leave) -> None:
        """The answer to a leave."""
        if self._answered(monotonic, leave):
            self._observe(Drained())
            self._stop(None)

    def request_failed(self, monotonic: int, request: End | Take | Adopt | Leave) -> None:
        """A request other than a begin or a beat got no answer. If it was done, the next beat tells."""
        if self._answered(monotonic, request):
            self._retry_at = monotonic + BEAT_RETRY_MS

    def _answered(self, monotonic: int, request: End | Take | Adopt | Leave) -> bool:
        if not self.may_serve(monotonic) or self._asked is not request:
            return False
        self._asked = None
        return True

    # -- handing over and committing -----------------------------------------------------------------------------

    def _surplus(self) -> int:
        """How many shards are to go to others, or are about to."""
        share = 0 if self.draining else self._view.share
        return len(self.owned) - share if len(self.owned) > share else len(self.owned.closing())

    def _waits_for_shards(self) -> bool:
        """Whether others have shards that this controller is to get soon."""
        some = self._view.free() or self._view.some_will_be_free()
        return not self.draining and len(self.owned) < self._view.share and bool(some)

    def _hand_over(self, monotonic: int) -> None:
        """Closes shards, unless some are closing already: their commit may have failed, and is wanted again."""
        if not self.owned.closing() and (self.draining or self._view.is_quiet(monotonic)):
            share = 0 if self.draining else self._view.share
            part = self._part if self._view.others_take else len(self.owned)
            self.owned.close(shards_to_hand_over(self.owned.shards(), share, part))
        closing = self.owned.closing()
        if closing or monotonic >= self._view.quiet_at:
            self._hand_over_at = monotonic + BEAT_MS
        if closing:
            self._for_due.append(HandOver(tuple(tenure.shard for tenure in closing)))

    def begin_commit(self, monotonic: int, shards: set[int]) -> CommitParts | None:
        """A commit of what changed in these shards, with the release of those that are to be handed over.

        None if it would be refused: the lease is over, a lost session is not settled, a shard is not owned, or this
        controller leaves. What was to be committed is dropped then, as after a commit that failed.
        """
        is_leaving = isinstance(self._asked, Leave)
        if not self.may_serve(monotonic) or self._unsettled or self._commit is not None or is_leaving:
            return None
        closing = [tenure.shard for tenure in self.owned.closing()]
        tenures = [self.owned.get(shard) for shard in sorted({*shards, *closing})]
        owned = [tenure for tenure in tenures if tenure is not None]
        if len(owned) < len(tenures):
            return None
        now = self.clock.now(monotonic)
        served = self._hearing.begin(now)
        check = Check(self.id, tuple((tenure.shard, tenure.fence) for tenure in owned))
        release = Release(tuple(closing), served_until=served, clock_floor=now + 1) if closing else None
        self._commit = CommitParts(check, release, served)
        return self._commit

    def commit_ended(self, monotonic: int, commit: CommitParts, outcome: CommitOutcome) -> None:
        """How a commit ended. One that is done is answered even if the lease is over."""
        if not self.may_serve(monotonic) or self._commit is not commit:
            return
        self._commit = None
        self._hearing.end(self.clock.now(monotonic), done=outcome is CommitOutcome.DONE)
        released = commit.release.shards if commit.release is not None else ()
        match outcome:
            case CommitOutcome.DONE:
                self._let_go(released)
                for shard in released:
                    self._view.was_released(shard)
                if released:
                    self._observe(ShardsReleased(len(released)))
                if released and self.draining:
                    self._hand_over_at = monotonic + DRAIN_PAUSE_MS if self._view.others_take else 0
            case CommitOutcome.REFUSED:
                self.start_over()
            case CommitOutcome.LOST:
                self._unsettled = True
                self._let_go(released)  # those that are still owned come back with the answer to the adopt
            case CommitOutcome.FAILED:
                pass

    @property
    def settling(self) -> bool:
        """Whether commits and loads wait, because a lost session may still write."""
        return self._unsettled

    def _let_go(self, shards: tuple[int, ...]) -> None:
        self.owned.release(shards)
        self._drop(list(shards))

    def _drop(self, shards: list[int]) -> None:
        if shards:
            self._for_due.append(Drop(tuple(shards)))

    # -- for people ----------------------------------------------------------------------------------------------

    def controllers(self, monotonic: int) -> list[SeenController]:
        """All controllers as the last answer to a beat had them, by name; none before the first begin."""
        return self._view.all(monotonic, self._lease.renewed_at) if self._has_begun else []

    def named(self, name: str) -> ControllerRow | None:
        """The live controller with this name."""
        return self._view.named(name) if self._has_begun else None

    @property
    def has_successors(self) -> bool:
        """Whether another controller may take the shards of this one."""
        return self._has_begun and self._view.others_take

    @property
    def live_controllers(self) -> int:
        """How many there are, this one among them."""
        return self._view.live if self._has_begun else 0

    @property
    def renewed_at(self) -> int:
        """When the last begin or beat that was answered had been sent."""
        return self._lease.renewed_at

    @property
    def _has_begun(self) -> bool:
        return bool(self._lease.until)

    # -- calls and time ------------------------------------------------------------------------------------------

    def route(
        self, monotonic: int, shard: int, *, fence: int = 0, since: int = 0, passed_on_to: int | None = None
    ) -> CallRoute:
        """What to do with a call. Ask again after each wait: nothing that is served outlives it.

        `fence` is the greatest one that the caller saw on this shard's answers, and the call came at the moment
        `since`. A controller that owns the shard with a lower one asks the store first whether it still does. If so,
        no shard of this store ever had that fence, and the call is served. `passed_on_to` is the id of the controller
        that another one meant, on a call that it passed on.
        """
        if not self.may_serve(monotonic):
            return Refuse(Refusal.NOT_SERVING)
        if passed_on_to is not None and passed_on_to != self.id:
            return Refuse(Refusal.NOT_OWNER)
        tenure = self.owned.get(shard)
        if tenure is not None:
            believed = tenure.fence >= fence or self._lease.confirmed_after(since)
            return Serve(tenure.fence) if believed and not tenure.closing else Hold(monotonic + HELD_CALL_MS)
        if passed_on_to is not None:
            return Refuse(Refusal.NOT_OWNER)
        owner = self._view.owner_of(shard)
        if owner is None or owner.id == self.id:
            return Hold(monotonic + HELD_CALL_MS)  # one of the live controllers is about to take it
        return PassOn(owner)

    def clock_floor(self, shard: int) -> int:
        """No time of a shard's streams is below, whoever owns it, by what is known."""
        return self._view.clock_floor_of(shard) if self.phase is MemberPhase.SERVING else 0

    def check_soon(self, monotonic: int) -> bool:
        """A controller that a call was passed on to is not the owner, or nobody is: a beat tells who is. Returns
        whether that brings the next beat forward."""
        soon = monotonic + FREE_SHARDS_CHECK_MS
        if not self.may_serve(monotonic) or self._beat_at <= soon:
            return False
        self._beat_at = soon
        return True
