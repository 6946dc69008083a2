"""What is promised, and what really happened: everything here is in real time, which no controller knows."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from controller.cluster.records import LEASE_MS, ShardRow
from strandline.core.served_time import COMMIT_HANGS_MS

if TYPE_CHECKING:
    from tests.cluster.store import Data, Session

WRITER_TIMEOUT_MS = 7_000
LET_GO_SLACK_MS = LEASE_MS // 2  # silence is promised to be judged to within a lease
HANGS_MS = COMMIT_HANGS_MS + 50  # what takes about as long as that may be either
FROM_STORE_MS = LEASE_MS + 1_000  # a takeover begins at a bound that is a lease ahead; an answer may come that late


class Broken(AssertionError):
    """A promise was broken."""


class Shown(NamedTuple):
    """What readers of a shard have seen: how many marks, the time, and the fence of who showed it."""

    marks: int
    clock: int
    fence: int


NOTHING_SHOWN: Final = Shown(0, 0, 0)


class Truth:
    """Judges what the store writes and what readers are shown."""

    def __init__(self, shards: int, writers: int) -> None:
        self.said = [[0] * writers for _ in range(shards)]  # the newest time that each writer said
        self.answered = [[0] * writers for _ in range(shards)]
        self.clock_shown = [0] * shards
        self.marks_shown = [0] * shards
        self.fence_shown = [0] * shards
        self.host_was_suspended = False  # then who sends no fence may be shown what is old
        self.store_clock_was_set = False  # then silence, which is measured by it, is not judged
        self.commits_were_lost = False  # the same: who was heard last is lost with them
        self.heard = [[0.0] * writers for _ in range(shards)]
        self._unserved: list[list[tuple[float, float]]] = [[] for _ in range(shards)]  # spans, which may overlap
        self._did: dict[int, float] = {}  # by controller: when the store last did something for it
        self._failing: dict[int, float] = {}  # by controller: the begin of the first commit since one succeeded
        self._failed: set[int] = set()
        self._released = [0.0] * shards
        self._tenures: list[list[tuple[int, float]]] = [[] for _ in range(shards)]  # who took it, and when

    # -- who served what, and when -------------------------------------------------------------------------------

    def did(self, controller: int, time: float) -> None:
        """The store did something for a controller, which so can be heard. If it had been cut off for longer than its
        lease, nobody could hear its writers meanwhile."""
        silent = time - self._did.get(controller, time)
        if silent > LEASE_MS:
            self._did_not_serve(controller, time - silent, time)
        self._did[controller] = time

    def commit_began(self, controller: int, time: float) -> None:
        self._failing.setdefault(controller, time)

    def commit_ended(self, controller: int, time: float, done: bool) -> None:
        """While commits fail, or one hangs, nobody gets an answer."""
        if not done:
            self._failed.add(controller)
            return
        since = self._failing.pop(controller)
        if controller in self._failed or time - since >= HANGS_MS:
            self._failed.discard(controller)
            self._did_not_serve(controller, since, time)

    def released(self, shard: int, time: float) -> None:
        self._released[shard] = time

    def took(self, shard: int, controller: int, former: int | None, time: float) -> None:
        served = self._released[shard] if former is None else self._did[former]
        if former in self._failed:
            _, begin = self._tenures[shard][-1]
            served = min(served, max(self._failing[former], begin))
        self._nobody_served(shard, served, time)
        self._tenures[shard].append((controller, time))

    def _did_not_serve(self, controller: int, since: float, until: float) -> None:
        """Nobody could hear the writers of the shards that a controller had meanwhile."""
        for shard, tenures in enumerate(self._tenures):
            for (owner, begin), (_, end) in pairwise([*tenures, (0, until)]):
                if owner == controller and end > since:
                    self._nobody_served(shard, max(since, begin), min(until, end))

    def _nobody_served(self, shard: int, since: float, until: float) -> None:
        """That time is nobody's silence."""
        self._unserved[shard].append((since, until))

    def lost(self, stored: list[Data]) -> None:
        """The last commits are gone, and only what is stored has to last."""
        self.commits_were_lost = True
        for shard, data in enumerate(stored):
            self.answered[shard] = [min(pair) for pair in zip(self.answered[shard], data.notes, strict=True)]
            self.marks_shown[shard] = min(self.marks_shown[shard], len(data.marks))
            self.clock_shown[shard] = 0

    def silence(self, shard: int, writer: int, time: float) -> float:
        """How long a writer has really been silent while somebody served its stream."""
        silent, at = 0.0, self.heard[shard][writer]
        for since, until in sorted(self._unserved[shard]):
            if until > at:
                silent += max(0.0, since - at)
                at = until
        return silent + max(0.0, time - at)

    # -- promises ------------------------------------------------------------------------------------------------

    def judge_write(self, row: ShardRow, before: Data, written: Data, session: Session, fence: int) -> None:
        shard, writer = row.id, session.commit.check.id
        if (row.owner, row.fence) != (writer, fence):
            raise Broken(f"{writer} writes shard {shard} with fence {fence}, which {row.owner} owns with {row.fence}")
        if written.version != before.version:
            raise Broken(
                f"shard {shard} is written on top of version {written.version}, the store has {before.version}"
            )
        if written.marks[: len(before.marks)] != before.marks:
            raise Broken(f"marks of shard {shard} were {before.marks} and become {written.marks}")
        if any(later <= earlier for earlier, later in zip(written.marks, written.marks[1:], strict=False)):
            raise Broken(f"marks of shard {shard} do not rise: {written.marks}")
        for name, (time, answered) in enumerate(zip(written.notes, self.answered[shard], strict=True)):
            if time < answered:
                raise Broken(f"writer {name} of shard {shard} was answered {answered}, and the store gets {time}")
        if shard in session.bad:
            raise Broken(session.bad[shard])
        for (of, name), at in session.heard_at.items():
            if of == shard:
                self.heard[shard][name] = at

    def judge_clock(self, shard: int, now: int) -> str | None:
        """What is wrong with a stream's time, if it is used or shown."""
        shown = self.clock_shown[shard]
        return f"the clock of shard {shard} stepped back: {shown} was shown, now {now}" if now < shown else None

    def judge_let_go(self, shard: int, writer: int, time: float) -> str | None:
        """What is wrong with letting a writer go, if it becomes durable."""
        silent = self.silence(shard, writer, time)
        if self.store_clock_was_set or self.commits_were_lost or silent >= WRITER_TIMEOUT_MS - LET_GO_SLACK_MS:
            return None
        return f"writer {writer} of shard {shard} was let go after {silent:.0f} ms of served silence"

    def shown(self, shard: int) -> Shown:
        """What a reader of a shard has seen so far, and sends back the fence of."""
        return Shown(self.marks_shown[shard], self.clock_shown[shard], self.fence_shown[shard])

    def judge_read(
        self, shard: int, before: Shown, now_shown: Shown, marks: list[int], store: tuple[list[int], int]
    ) -> None:
        """A reader is shown the marks and the time of a shard. `before` is what readers had seen when it asked."""
        stored, store_now = store
        now, suspended = now_shown.clock, self.host_was_suspended
        ahead_ms = now - store_now if suspended else abs(now - store_now)
        if ahead_ms > FROM_STORE_MS and not self.store_clock_was_set:
            raise Broken(f"the clock of shard {shard} shows {now}, the store's {store_now}")
        if marks != stored[: len(marks)]:
            raise Broken(f"a reader was shown marks {marks} of shard {shard}; the store has {stored}")
        least = before if suspended else self.shown(shard)
        if now_shown.marks < least.marks:
            raise Broken(f"{least.marks} marks of shard {shard} were shown before, now {now_shown.marks}")
        if now < least.clock:
            raise Broken(f"the clock of shard {shard} stepped back: {least.clock} was shown, now {now}")
        self.marks_shown[shard] = max(self.marks_shown[shard], now_shown.marks)
        self.clock_shown[shard] = max(self.clock_shown[shard], now)
        self.fence_shown[shard] = max(self.fence_shown[shard], now_shown.fence)
