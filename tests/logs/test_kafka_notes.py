"""Notes over Kafka: none covers what was lost, and the next one does when it has been written again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from strandline.client import calls
from strandline.client.http import Connection
from strandline.logs.errors import LogFenced, NotAcknowledged
from strandline.logs.kafka import KafkaLog
from tests.kafka import Kafka
from tests.served import AT_ONCE, served
from writer_client import Event, Writer


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with served(tmp_path_factory.mktemp("controller") / "store.db") as connection:
        yield connection


def noted(connection: Connection, stream: str) -> dict[str, tuple[Any, Any]]:
    """What each writer has noted: its times and its position."""
    writers = httpx.get(f"{connection.controller}/v1/streams/{stream}/writers").json()["writers"]
    return {each["writer"]: (each["times"], each["position"]) for each in writers}


def test_a_time_is_not_noted_while_something_older_is_lost(kafka: Kafka, connection: Connection) -> None:
    kafka.create_topic("lost", 1, config={"max.message.bytes": "1000"})
    connection.run(calls.create_stream("lost", "open", AT_ONCE))
    with KafkaLog.connect(kafka.servers, "lost") as log, Writer(connection, "lost", "w1", log=log) as writer:
        writer.write([Event(b"1", segment="0")])
        writer.note_time(1)
        writer.write([Event(b"2", segment="0"), Event(b"x" * 5000, segment="0")])
        with pytest.raises(NotAcknowledged) as caught:
            writer.note_time(3)
        assert noted(connection, "lost") == {"w1": ({"": 1}, {"0": 1})}
        writer.write([Event((event.value or b"")[:1], event.key, event.segment) for event in caught.value.events])
        writer.note_time(3)
        assert noted(connection, "lost")["w1"][0] == {"": 3}
        assert noted(connection, "lost")["w1"][1]["0"] >= 3


def test_a_fenced_writer_notes_nothing_and_its_successor_goes_on(kafka: Kafka, connection: Connection) -> None:
    kafka.create_topic("fenced", 1)
    connection.run(calls.create_stream("fenced", "open", AT_ONCE))
    old_log = KafkaLog.connect(kafka.servers, "fenced", transactional_id="w1")
    old = Writer(connection, "fenced", "w1", log=old_log)
    old.write([Event(b"1", segment="0")])
    old.note_time(1)
    before = noted(connection, "fenced")
    with KafkaLog.connect(kafka.servers, "fenced", transactional_id="w1") as log:
        with pytest.raises(LogFenced):
            old.write([Event(b"2", segment="0")])
        with pytest.raises(LogFenced):
            old.note_time(3)
        assert noted(connection, "fenced") == before
        with Writer(connection, "fenced", "w1", log=log) as writer:
            assert writer.floor == 1
            writer.write([Event(b"2", segment="0")])
            writer.note_time(3)
            with writer.begin() as transaction:
                transaction.write([Event(b"3", segment="0")])
                transaction.commit(4)
            assert noted(connection, "fenced")["w1"][0] == {"": 4}
            assert noted(connection, "fenced")["w1"][1]["0"] == log.positions()["0"]
    old_log.close()
