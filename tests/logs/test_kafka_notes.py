"""Notes over Kafka: none covers what was lost, and the next one does when it has been written again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from strandline.client import calls
from strandline.client.http import Connection
from strandline.errors import Fenced, InvalidConfig
from strandline.logs.errors import LogFenced, NotAcknowledged, TransactionUnderWay
from strandline.logs.kafka import KafkaLog, TrackedProducer
from strandline.logs.kafka_topic import Topic
from tests.kafka import Kafka
from tests.served import AT_ONCE, served
from writer_client import BackgroundWriter, Event, NewerBelow, Writer
from writer_client.retention import truncate_before


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


ANY_WRITER = pytest.mark.parametrize("kind", [Writer, BackgroundWriter])


def test_a_writer_does_not_go_idle_by_itself_beside_a_producer_of_the_program(
    kafka: Kafka, connection: Connection
) -> None:
    """What that sends, the writer does not notice: it would go idle while its events come."""
    producer = TrackedProducer(kafka.client)
    with pytest.raises(InvalidConfig, match="idle_after_ms cannot be 1000"):
        Writer(connection, "orders", "w1", log=producer.log("orders"), idle_after_ms=1000)


@ANY_WRITER
def test_newest_is_not_noted_over_what_a_producer_sent_after_it_was_given(
    kafka: Kafka, connection: Connection, kind: type[Any]
) -> None:
    stream = f"newest-{kind.__name__}"
    kafka.create_topic(stream, 1)
    connection.run(calls.create_stream(stream, "open", AT_ONCE))
    producer = TrackedProducer(kafka.client)
    with kind(connection, stream, "w1", log=producer.log(stream)) as writer:
        writer.register()
        producer.produce(stream, value=b"100")
        flush = writer._session.log.flush

        def send_and_flush() -> Any:
            producer.produce(stream, value=b"500")  # as another thread may, while the note waits for the log
            return flush()

        writer._session.log.flush = send_and_flush
        writer.note_time(101, newest=100)
    assert [each.newest for each in connection.run(calls.marks(stream)).marks] == [None]
    topic = Topic(stream, kafka.client)
    with pytest.raises(NewerBelow, match="shares a segment with other processes"):
        truncate_before(connection, stream, topic, 300)


@ANY_WRITER
@pytest.mark.parametrize("end", ["idle", "close", "leave"])
def test_a_writer_does_not_leave_while_the_transaction_of_its_producer_is_open(
    kafka: Kafka, connection: Connection, kind: type[Any], end: str
) -> None:
    stream = f"open-{kind.__name__}-{end}"
    kafka.create_topic(stream, 1)
    connection.run(calls.create_stream(stream, "open", AT_ONCE))
    producer = TrackedProducer({**kafka.client, "transactional.id": stream})
    producer.init_transactions()
    writer = kind(connection, stream, "w1", log=producer.log(stream), leaving="idle")
    writer.register()
    producer.begin_transaction()
    producer.produce(stream, b"50")
    producer.flush()
    with pytest.raises(TransactionUnderWay):
        getattr(writer, {"leave": "__enter__"}.get(end, end))()
        writer.__exit__(None, None, None)
    producer.commit_transaction()
    with Writer(connection, stream, "w1", log=producer.log(stream), leaving="close"):
        pass  # the events lie below the position that it notes
    with Writer(connection, stream, "other") as other:
        assert other.note_time(100, {}).marks[-1].cut["0"] >= 1


@ANY_WRITER
def test_the_failure_of_an_event_reaches_every_writer_on_its_log_object(
    kafka: Kafka, connection: Connection, kind: type[Any]
) -> None:
    """Whose event it was is not known: nobody may note over it without having been told."""
    stream = f"shared-{kind.__name__}"
    kafka.create_topic(stream, 1, config={"max.message.bytes": "1000"})
    connection.run(calls.create_stream(stream, "open", AT_ONCE))
    with KafkaLog.connect(kafka.servers, stream) as log:
        first, second = (kind(connection, stream, name, log=log) for name in ("w1", "w2"))
        for writer in (first, second):
            writer.register()
        second.write([Event(b"x" * 5000, segment="0")])
        for writer, told in ((first, "not acknowledged"), (second, "another writer on this log object")):
            if kind is Writer:
                with pytest.raises(NotAcknowledged, match=told):
                    writer.note_time(10)
                writer.note_time(10)
                continue
            writer.note_time(10)
            while not writer.status().failed_write:
                assert not writer.wait_until_answered(10)
            assert "not acknowledged" in str(writer.status().stuck)
            writer.resume()
            assert writer.wait_until_answered()
        assert noted(connection, stream) == {name: ({"": 10}, {}) for name in ("w1", "w2")}
        for writer in (first, second):
            writer.release()


def test_positions_in_a_topic_that_was_made_anew_are_forgotten(kafka: Kafka, connection: Connection) -> None:
    kafka.create_topic("anew", 2)
    connection.run(calls.create_stream("anew", "open", AT_ONCE))
    with KafkaLog.connect(kafka.servers, "anew") as log, Writer(connection, "anew", "w1", log=log) as writer:
        writer.write([Event(b"%d" % n, segment="1") for n in range(5)])
        writer.note_time(10)
        kafka.recreate_topic("anew", 2)
        connection.run(calls.delete_stream("anew"))
        connection.run(calls.create_stream("anew", "open", AT_ONCE))
        writer.write([Event(b"100", segment="0")])
        with pytest.raises(Fenced):
            writer.note_time(101)
        writer.register()
        writer.write([Event(b"101", segment="0")])
        writer.note_time(102)
        assert connection.run(calls.marks("anew")).marks[-1].cut == {"0": Topic("anew", kafka.client).ends()["0"]}
