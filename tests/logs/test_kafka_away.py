"""A producer whose broker is not there: one line of ours says whom it waits for, and librdkafka's come at a pace."""

from __future__ import annotations

import logging
from typing import Any

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


def test_a_wait_that_is_over_is_not_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline.paced_log.WAIT_LOGGED_AFTER_MS", 0)
    OF_THE_PROCESS.refill()

    class Answering:
        def flush(self, timeout_s: float) -> None:
            delivery.acknowledged("0", 0)

    answering: Any = Answering()
    producer = TrackedProducer({"bootstrap.servers": "127.0.0.1:1"}, answering)
    delivery = producer.deliveries("orders").sending()
    assert producer.log("orders").flush() == {"0": 1}
    assert caplog.text == ""


def test_a_program_that_says_how_to_log_is_left_to_it() -> None:
    heard: list[str] = []

    class Log:
        def log(self, level: int, text: str, *given: object) -> None:
            heard.append(text % given)

    producer = TrackedProducer({"bootstrap.servers": "127.0.0.1:1", "logger": Log()})
    producer.produce("orders", b"x")
    while not heard:
        producer.poll(0.1)
    assert "127.0.0.1:1" in heard[0]
    producer.purge()
