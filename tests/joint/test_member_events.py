"""What happens to a member is counted, and each event is a line of the log."""

from __future__ import annotations

import logging

import pytest

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
from controller.cluster.records import ControllerRow
from controller.joint.member_events import MemberEvents

pytestmark = pytest.mark.full

OTHER = ControllerRow(2, "b", "http://b", None, "1", 7, 0, 0, False, None)


@pytest.mark.parametrize(
    ("event", "line", "level", "fields"),
    [
        (LeaseLost(86), "lease_lost", logging.WARNING, {"shards": 86}),
        (StartedOver(86), "began_anew", logging.INFO, {"shards": 86}),
        (ShardsTaken(5, {"b": 3}), "shards_taken", logging.INFO, {"shards": 5, "of_ended": {"b": 3}}),
        (ShardsTaken(5, {}), "shards_taken", logging.INFO, {"shards": 5}),
        (ShardsReleased(16), "shards_released", logging.INFO, {"shards": 16}),
        (OtherEnded(OTHER), "controller_ended", logging.WARNING, {"name": "b", "address": "http://b"}),
        (AddressShared(OTHER), "same_address", logging.WARNING, {"name": "b", "address": "http://b"}),
        (Drained(), "drained", logging.INFO, {}),
    ],
)
def test_an_event_is_one_line(
    event: MemberEvent, line: str, level: int, fields: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "strandline"):
        MemberEvents().observe(event)
    (record,) = caplog.records
    assert (record.message, record.levelno, getattr(record, "fields", None)) == (line, level, fields)


def test_events_are_counted() -> None:
    events = MemberEvents()
    for event in (LeaseLost(1), ShardsTaken(5, {"b": 3, "c": 1}), ShardsReleased(16), OtherEnded(OTHER)):
        events.observe(event)
        events.observe(event)
    assert (events.leases_lost, events.controllers_ended) == (2, 2)
    assert (events.shards_taken_over, events.shards_released) == (8, 32)
