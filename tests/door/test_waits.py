"""Who waits for too long, without a timer for each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.http.wait_queue import WaitQueue, longest

LIMIT_S = 10.0
# What happens, after how long, and to whom.
STEPS = st.lists(
    st.tuples(st.sampled_from(["enter", "leave", "look"]), st.floats(0, 12), st.integers(0, 5)), max_size=40
)


@given(STEPS)
def test_overdue_finds_exactly_those_who_waited_too_long(steps: list[tuple[str, float, int]]) -> None:
    queue: WaitQueue[int] = WaitQueue(LIMIT_S)
    since: dict[int, float] = {}
    now = 0.0
    for what, after, who in steps:
        now += after
        if what == "enter":
            queue.enter(who, now)
            since[who] = now
        elif what == "leave":
            queue.leave(who)
            since.pop(who, None)
        else:
            expected = {each for each, began in since.items() if now - began > LIMIT_S}
            assert set(queue.overdue(now)) == expected
            for each in expected:
                del since[each]
        assert len(queue) == len(since) and all(each in queue for each in since)


def test_who_enters_again_while_it_is_looked_at_waits_anew() -> None:
    queue: WaitQueue[str] = WaitQueue(LIMIT_S)
    queue.enter("a", 0)
    for each in queue.overdue(11):
        queue.enter(each, 11)

    assert list(queue.overdue(12)) == [] and list(queue.overdue(22)) == ["a"]


def test_the_longest_waiter_makes_room_unless_it_just_came() -> None:
    one: WaitQueue[str] = WaitQueue(LIMIT_S)
    other: WaitQueue[str] = WaitQueue(LIMIT_S)
    assert longest([one, other], 5, 1) is None
    one.enter("late", 4.5)
    assert longest([one, other], 5, 1) is None
    other.enter("early", 3)
    other.enter("later", 4)
    assert longest([one, other], 5, 1) == "early"
