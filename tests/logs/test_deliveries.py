"""Positions from delivery reports: nothing that is under way or failed is ever below a position that counts it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.logs import Event
from strandline.logs.deliveries import Deliveries, Delivery

SEGMENTS = ("0", "1")
STEPS = st.lists(
    st.one_of(
        st.just(("send", 0)),
        st.tuples(st.sampled_from(["acknowledge", "fail", "withdraw"]), st.integers(0, 5)),
        st.just(("wait", 0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_a_wait_ends_when_everything_sent_before_has_its_report(steps: list[tuple[str, int]]) -> None:
    deliveries = Deliveries()
    under_way: list[Delivery] = []
    waits: list[tuple[list[Delivery], object]] = []
    ends = dict.fromkeys(SEGMENTS, 0)
    expected: dict[str, int] = {}
    failed = 0
    for step, which in steps:
        match step:
            case "send":
                under_way.append(deliveries.sending())
            case "wait":
                waits.append((list(under_way), deliveries.wait()))
            case _ if under_way:
                delivery = under_way.pop(which % len(under_way))
                segment = SEGMENTS[which % 2]
                if step == "acknowledge":
                    delivery.acknowledged(segment, ends[segment])
                    ends[segment] += 1
                    expected[segment] = ends[segment]
                elif step == "fail":
                    delivery.failed("lost")
                    failed += 1
                else:
                    delivery.withdrawn()
        for waited_for, is_over in waits:
            assert callable(is_over)
            assert is_over() == (not set(waited_for) & set(under_way))
        assert deliveries.positions() == expected
        assert deliveries.under_way() == len(under_way)
    assert deliveries.take_failures().count == failed
    assert not deliveries.take_failures()


@pytest.mark.parametrize("in_transaction", [False, True])
def test_the_position_goes_back_with_a_log_that_was_made_anew(in_transaction: bool) -> None:
    deliveries = Deliveries()
    for offset in range(10):
        deliveries.sending().acknowledged("0", offset)
    if in_transaction:
        deliveries.begin()
    sent = [deliveries.sending() for _ in range(3)]
    for offset in (1, 0, 2):  # the threads that poll may hand the reports over in another order
        sent[offset].acknowledged("0", offset)
    if in_transaction:
        assert deliveries.commit() == {"0": 3}
    assert deliveries.positions() == {"0": 3}


def test_a_report_that_comes_late_takes_no_position_back() -> None:
    deliveries = Deliveries()
    first, second = deliveries.sending(), deliveries.sending()
    second.acknowledged("0", 8)
    first.acknowledged("0", 3)
    assert deliveries.positions() == {"0": 9}


def test_only_the_first_report_of_an_event_counts() -> None:
    deliveries = Deliveries()
    delivery = deliveries.sending()
    delivery.failed("lost")
    delivery.acknowledged("0", 8)
    assert deliveries.positions() == {}
    assert deliveries.under_way() == 0


def test_what_failed_is_handed_back_with_the_reason_once() -> None:
    deliveries = Deliveries()
    event = Event(b"a", segment="0")
    deliveries.sending(event).failed("timed out", "0")
    deliveries.sending().failed("never sent")
    failures = deliveries.take_failures()
    assert (failures.count, failures.reason) == (2, "timed out")
    assert (failures.events, failures.segments) == ([event], {"0"})
    assert not deliveries.take_failures()


@pytest.mark.parametrize("ends_with", ["commit", "abort"])
def test_what_is_sent_in_a_transaction_counts_with_its_commit(ends_with: str) -> None:
    deliveries = Deliveries()
    deliveries.sending().acknowledged("0", 0)
    deliveries.begin()
    deliveries.sending().acknowledged("0", 1)
    deliveries.sending().acknowledged("1", 7)
    deliveries.sending().failed("timed out", "0")
    assert deliveries.in_transaction
    assert deliveries.positions() == {"0": 1}
    if ends_with == "commit":
        assert deliveries.commit() == {"0": 2, "1": 8}
        assert deliveries.positions() == {"0": 2, "1": 8}
    else:
        deliveries.abort()
        assert deliveries.positions() == {"0": 1}
    assert bool(deliveries.take_failures()) is (ends_with == "commit")
    assert not deliveries.in_transaction
