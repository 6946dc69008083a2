"""Histories step by step, of what chance finds too seldom. Without the rule that each is about, it raises Broken."""

from __future__ import annotations

from functools import partial

from controller.cluster.member import BEAT_MS
from controller.cluster.records import LEASE_MS, Beat
from tests.cluster.process import CALL_MS, Call, Process
from tests.cluster.world import Plan, World

STEP_MS = 1_500  # in which a shard is handed over, or a call is answered


class Pair:
    """Two controllers and one shard, which the first one has."""

    def __init__(self) -> None:
        self.world = World(1, Plan(controllers=2, shards=1, every_ms=10**9, note_ms=10**9, latency_ms=(1, 10)))
        self.wait()
        self.wait()
        processes = list(self.world.processes.values())
        self.owner, self.other = sorted(processes, key=lambda process: 0 not in process.member.owned)

    def wait(self, ms: float = STEP_MS) -> None:
        self.world.run_until(self.world.time + ms)

    def hand_over(self, giver: Process, taker: Process) -> None:
        giver.enter(partial(giver.hand_over, self.world.random))
        self.wait(200)
        taker.enter(taker.look)
        self.wait(300)
        assert 0 in taker.member.owned

    def call(self, process: Process, writer: int | None, time: int = 0) -> None:
        until = self.world.time + CALL_MS
        process.enter(lambda: process.call(Call(0, writer, time, lambda done: None, until)))
        self.wait(700)

    def note(self, process: Process, time: int) -> None:
        """Every writer notes this time, and a reader looks."""
        for writer in range(self.world.writers):
            self.world.truth.said[0][writer] = time
            self.call(process, writer, time)
        self.call(process, None)


def load_of_an_earlier_tenure() -> None:
    """A load is answered when its shard was with another controller meanwhile, which wrote."""
    pair = Pair()
    tenure = pair.owner.tenure_of(0)
    assert tenure is not None
    loaded = pair.world.store.data[0].copy()
    pair.hand_over(pair.owner, pair.other)
    pair.note(pair.other, 1)
    pair.hand_over(pair.other, pair.owner)
    pair.owner.enter(lambda: pair.owner.loaded(0, tenure, loaded))
    pair.note(pair.owner, 2)


def beat_of_before_a_release() -> None:
    """A beat is answered after the release of a shard, and shows the shard as owned."""
    pair = Pair()
    owner, store = pair.owner, pair.world.store
    beat = store.look(owner.member.id, None)
    pair.hand_over(owner, pair.other)
    while owner.member._beat_sent is None:
        pair.wait(1)
    asked = Beat(owner.member.id, 0, False, None)
    owner.enter(lambda: owner.member.beat_answered(owner.monotonic, asked, beat))
    pair.call(owner, None)
    pair.note(pair.other, 1)
    pair.call(owner, None)


def lease_of_a_late_answer() -> None:
    """A beat is answered late, and then its controller is cut off from the store, while another one takes its shard."""
    pair = Pair()
    owner, other = pair.owner, pair.other
    pair.note(owner, 1)
    while owner.member._beat_sent is None:
        pair.wait(1)
    owner.paused = True  # the answer waits
    pair.wait(LEASE_MS - 2 * BEAT_MS)
    owner.go_on()
    owner.cut = True
    while 0 not in other.member.owned:
        pair.wait(10)
    pair.note(other, 2)
    pair.call(owner, None)
