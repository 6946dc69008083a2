"""Times of notes as datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from strandline.errors import InvalidConfig
from strandline.testing import NOON, InProcessController, ScriptedLog
from writer_client import BackgroundWriter, Event, Writer

MOMENT = datetime.fromtimestamp(NOON / 1_000, UTC)


def test_a_writer_notes_a_datetime_and_says_what_its_newest_event_is() -> None:
    log = ScriptedLog()
    with InProcessController() as controller:
        controller.create_stream("orders", segments=2)
        with Writer(controller.connection(), "orders", "w", log=log.writer()) as writer:
            writer.write([Event(b"x", segment="0")], newest=MOMENT - timedelta(microseconds=1_500))
            writer.note_time(MOMENT + timedelta(microseconds=900))
        (mark,) = controller.request("GET", "/v1/streams/orders/marks").json()["marks"]
    assert (mark["time"], mark["newest"]) == (NOON, NOON - 1)


def test_a_background_writer_takes_datetimes_by_key() -> None:
    with InProcessController() as controller:
        controller.create_stream("orders", segments=1)
        with BackgroundWriter(controller.connection(), "orders", "w", keys=["ship"]) as writer:
            writer.note_time({"ship": MOMENT}, {"0": 1})
            assert writer.wait_until_answered()
        marks = controller.request("GET", "/v1/streams/orders/marks?key=ship").json()["marks"]
    assert [mark["time"] for mark in marks] == [NOON]


def test_a_datetime_without_a_zone_is_refused_before_anything_is_noted() -> None:
    writer = BackgroundWriter("http://127.0.0.1:9", "orders", "w")
    with pytest.raises(InvalidConfig, match="with a time zone, such as"):
        writer.note_time(datetime(2026, 1, 1), {"0": 1})  # noqa: DTZ001  # that is the mistake
    assert writer.status().waiting == 0
