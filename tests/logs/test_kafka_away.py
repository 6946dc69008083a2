"""A producer whose broker is not there: one line of ours says whom it waits for, and librdkafka's come at a pace."""

from __future__ import annotations

import logging

import pytest

from strandline.logs.errors import NotAcknowledged
from strandline.logs.kafka import TrackedProducer
from strandline.paced_log import OF_THE_PROCESS

pytestmark = pytest.mark.full


def test_a_producer_at_a_wrong_broker_says_so_in_two_lines(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "strandline")
    OF_THE_PROCESS.refill()
    producer = TrackedProducer({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 4_000})
    producer.produce("orders", b"x")
    with pytest.raises(NotAcknowledged):
        producer.log("orders").flush()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) <= 3, lines  # its own end is a line of another kind
    assert "waiting for Kafka at 127.0.0.1:1, topic 'orders': 1 events (for 2 s)" in lines
    assert "%3|" not in capfd.readouterr().err
