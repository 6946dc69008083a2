"""The log on Kafka beyond the contract: existing producers, added partitions, full queues, fencing, and gaps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer, SerializingProducer, TopicPartition
from confluent_kafka.admin import AdminClient

from strandline.errors import UnknownSegment
from strandline.logs import Event, Memo
from strandline.logs.columns import event_schema
from strandline.logs.errors import (
    InvalidSetting,
    LogFenced,
    LogUnavailable,
    NotAcknowledged,
    NotInLog,
    RangeAbandoned,
    TopicMissing,
    TransactionOver,
    TransactionUnderWay,
)
from strandline.logs.kafka import KafkaLog, TrackedProducer
from strandline.logs.kafka_reader import KafkaLogReader
from strandline.logs.kafka_topic import Topic
from tests.kafka import Kafka

NUMBERS = count(1)


@pytest.fixture
def new_topic(kafka: Kafka) -> Callable[..., str]:
    def create(partitions: int = 2, **config: str) -> str:
        name = f"topic-{next(NUMBERS)}"
        kafka.create_topic(name, partitions, config={key.replace("_", "."): value for key, value in config.items()})
        return name

    return create


class KeyFirst(Producer):
    """A producer of a program, with its arguments in an order of its own."""

    def produce(  # type: ignore[override]  # that is the point
        self, topic: str, key: Any = None, partition: int = -1, value: Any = None, **more: Any
    ) -> None:
        super().produce(topic, key=key, partition=partition, value=value, **more)


def read_all(kafka: Kafka, topic: str) -> dict[str, list[bytes | None]]:
    kafka.wait_until_decided(topic)
    with KafkaLogReader(kafka.servers, topic) as reader:
        return {
            segment: [row.value for row in reader.rows(segment, 0, end)]
            for segment, end in reader.end_offsets().items()
        }


def events(*values: bytes, segment: str = "0") -> list[Event]:
    return [Event(value, segment=segment) for value in values]


class InPlace:
    """Stands in place of a producer, and does what that does."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def __len__(self) -> int:
        return len(self._producer)


class Interrupted(InPlace):
    """A producer with which Ctrl-C comes right after a commit or an abort."""

    def __init__(self, producer: Any, call: str) -> None:
        super().__init__(producer)
        self._call = call
        self._interrupts = [KeyboardInterrupt()]

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name != self._call:
            return found

        def call(*given: Any) -> None:
            found(*given)
            if self._interrupts:
                raise self._interrupts.pop()

        return call


class Ended(InPlace):
    """A producer after a fatal error, as one is whose cluster has lost acknowledged events."""

    def produce(self, *given: Any, **named: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))


class TestExistingProducers:
    def test_an_event_whose_timestamp_is_no_time_can_be_read(self, kafka: Kafka, new_topic: Callable[..., str]) -> None:
        topic = new_topic(1, message_timestamp_after_max_ms=str(2**63 - 1))
        producer = Producer(kafka.client)
        for timestamp in (1_700_000_000_000, 1_700_000_000_000_000_000):
            producer.produce(topic, b"a", partition=0, timestamp=timestamp)
        producer.flush()
        with KafkaLogReader(kafka.servers, topic) as reader:
            (batch,) = reader.read("0", 0, 2)
        assert batch["appended_at"].cast(pa.int64()).to_pylist() == [1_700_000_000_000_000, None]

    @pytest.mark.parametrize("wrap", [False, True], ids=["made", "wrapped"])
    def test_a_tracked_producer_calls_every_callback_and_knows_its_position(
        self, kafka: Kafka, new_topic: Callable[..., str], wrap: bool
    ) -> None:
        topic, called = new_topic(), list[str]()

        def callback(name: str) -> Callable[[KafkaError | None, Message], None]:
            return lambda error, message: called.append(f"{name} {message.offset()}")

        settings = {**kafka.client, "on_delivery": callback("default")}
        producer = TrackedProducer(settings, Producer(settings) if wrap else None)
        producer.produce(topic, b"a", b"key", 0)
        producer.produce(topic, b"b", partition=0, on_delivery=callback("on_delivery"))
        producer.produce(topic, b"c", partition=0, callback=callback("callback"))
        producer.produce(topic, b"d", None, 0, callback("by place"))
        producer.produce(topic, b"e", None, 0, None, callback("by later place"))
        messages: list[dict[str, Any]] = [{"value": b"f"}, {"value": b"g", "callback": callback("its own")}]
        assert producer.produce_batch(topic, messages, 0, on_delivery=callback("batch")) == 2
        with producer.log(topic) as log:
            assert log.flush() == {"0": 7}
        assert called == [
            "default 0", "on_delivery 1", "callback 2", "by place 3", "by later place 4", "batch 5", "its own 6"
        ]  # fmt: skip  # in the order of the calls above
        assert len(producer) == 0
        assert producer
        assert topic in producer.list_topics(topic).topics  # all else is the producer's own

    @pytest.mark.parametrize("kind", [Producer, SerializingProducer, KeyFirst])
    def test_a_writer_writes_keys_and_values_through_every_kind_of_producer(
        self, kafka: Kafka, new_topic: Callable[..., str], kind: type[Producer]
    ) -> None:
        topic = new_topic(1)
        producer = TrackedProducer(kafka.client, kind(kafka.client))
        log = producer.log(topic)
        log.append([Event(b"value", key=b"key", segment="0"), Event(b"alone", segment="0")])
        assert log.flush() == {"0": 2}
        with KafkaLogReader(kafka.servers, topic) as reader:
            assert [(each.key, each.value) for each in reader.rows("0", 0, 2)] == [(b"key", b"value"), (None, b"alone")]

    def test_what_the_producer_refuses_or_has_no_room_for_is_not_waited_for(
        self, kafka: Kafka, new_topic: Callable[..., str]
    ) -> None:
        topic = new_topic(1)
        producer = TrackedProducer(kafka.client)
        with pytest.raises(TypeError):
            producer.produce(topic, object())
        with pytest.raises(TypeError):
            producer.produce_batch(topic, [{"value": object()}])
        assert producer.log(topic).flush() == {}

        producer = TrackedProducer(
            {"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 2, "log_level": 0}
        )
        for _ in range(2):
            producer.produce("orders", b"taken")
        with pytest.raises(BufferError):
            producer.produce("orders", b"too much")
        messages: list[dict[str, Any]] = [{"value": b"too much"}]
        assert producer.produce_batch("orders", messages) == 0 and "_error" in messages[0]
        assert producer.deliveries("orders").under_way() == 2
        producer.purge()
        with pytest.raises(NotAcknowledged, match="2 events"):
            producer.log("orders").flush()
        assert producer.log("orders").flush() == {}

    def test_a_position_excludes_the_producers_uncommitted_transaction(
        self, kafka: Kafka, new_topic: Callable[..., str]
    ) -> None:
        topic = new_topic(1)
        producer = TrackedProducer({**kafka.client, "transactional.id": topic})
        log = producer.log(topic)
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(topic, b"aborted")
        producer.flush()
        assert log.in_transaction()
        assert log.flush() == {}
        with pytest.raises(TransactionUnderWay):
            log.append([Event(b"another", segment="0")])
        producer.abort_transaction()
        assert not log.in_transaction()
        assert log.flush() == {}
        producer.begin_transaction()
        producer.produce(topic, b"committed")
        producer.flush()
        assert log.positions() == {}
        producer.commit_transaction()
        (position,) = log.flush().values()
        found = read_all(kafka, topic)["0"]
        assert found == [b"committed"]
        assert position == 3  # the aborted event and its marker took the first two offsets

    def test_a_given_producer_that_has_ended_is_to_be_replaced(self) -> None:
        producer = TrackedProducer({"bootstrap.servers": "127.0.0.1:1"}, Ended([]))  # type: ignore[arg-type]  # as one
        topic = Topic("orders", producer.settings)
        producer.send(topic, events(b"a"))
        with pytest.raises(NotAcknowledged, match="make a new one"):
            producer.settle(topic)

    @pytest.mark.parametrize(
        "setting", [{"acks": "1"}, {"request.required.acks": 0}, {"delivery.report.only.error": True}]
    )
    def test_settings_with_which_nobody_knows_what_is_acknowledged_are_refused(self, setting: dict[str, Any]) -> None:
        with pytest.raises(InvalidSetting, match=next(iter(setting))):
            TrackedProducer({"bootstrap.servers": "127.0.0.1:1", **setting})


class TestAppends:
    def test_a_missing_topic_is_named_and_a_log_is_idempotent_and_has_transactions_only_with_an_id(
        self, kafka: Kafka, new_topic: Callable[..., str]
    ) -> None:
        with pytest.raises(TopicMissing, match="'nowhere'"):
            KafkaLog.connect(kafka.servers, "nowhere")
        with pytest.raises(TopicMissing, match="'nowhere'"):
            KafkaLogReader(kafka.servers, "nowhere").end_offsets()
        topic = new_topic()
        with pytest.raises(InvalidSetting, match=r"enable\.idempotence"):
            KafkaLog.connect(kafka.servers, topic, settings={"enable.idempotence": False})
        with KafkaLog.connect(kafka.servers, topic) as log:
            with pytest.raises(InvalidSetting, match=r"transactional\.id"):
                log.begin()
            assert log.memo("w1") is None

    @pytest.mark.parametrize("used", [False, True], ids=["new producer", "producer that has sent"])
    def test_partitions_added_meanwhile_are_segments_at_once(
        self, kafka: Kafka, new_topic: Callable[..., str], used: bool
    ) -> None:
        topic = new_topic(1)
        with KafkaLog.connect(kafka.servers, topic) as log:
            if used:  # it knows the topic with one partition, and would not look again for minutes
                log.append(events(b"a"))
                log.flush()
            with pytest.raises(UnknownSegment, match="'1'"):
                log.append(events(b"a", segment="1"))
            kafka.add_partitions(topic, 3)
            log.append(events(b"a") + events(b"b", b"c", segment="2"))
            assert log.flush() == {"0": 1 + used, "2": 2}
            assert log.end_offsets() == {"0": 1 + used, "1": 0, "2": 2}
        with KafkaLogReader(kafka.servers, topic) as reader:
            assert [segment.id for segment in reader.segments()] == ["0", "1", "2"]

    def test_an_append_waits_while_the_queue_is_full(self, kafka: Kafka, new_topic: Callable[..., str]) -> None:
        topic = new_topic(1)
        with KafkaLog.connect(kafka.servers, topic, settings={"queue.buffering.max.messages": 3}) as log:
            log.append(events(*(b"%d" % n for n in range(100))))
            assert log.flush() == {"0": 100}
        assert read_all(kafka, topic)["0"] == [b"%d" % n for n in range(100)]

    def test_events_kafka_refuses_are_handed_back_once_and_never_covered(
        self, kafka: Kafka, new_topic: Callable[..., str]
    ) -> None:
        topic = new_topic(1, max_message_bytes="1000")
        with KafkaLog.connect(kafka.servers, topic, settings={"linger.ms": 0}) as log:
            log.append(events(b"small"))
            log.flush()
            large = events(b"x" * 5000)
            log.append(large)
            with pytest.raises(NotAcknowledged) as caught:
                log.flush()
            assert caught.value.events == tuple(large)
            assert caught.value.count == 1
            log.append(events(b"more"))  # writing goes on
            assert log.flush() == {"0": 2}
        assert read_all(kafka, topic)["0"] == [b"small", b"more"]

    def test_a_log_whose_producer_has_ended_goes_on_with_a_new_one(
        self, kafka: Kafka, new_topic: Callable[..., str]
    ) -> None:
        with KafkaLog.connect(kafka.servers, topic := new_topic(1)) as log:
            log.append(events(b"before"))
            log.flush()
            ended: Any = Ended(log._producer._producer)
            log._producer._producer = ended
            log.append(events(b"a"))
            with pytest.raises(NotAcknowledged) as caught:
                log.flush()
            log.append(caught.value.events)
            assert log.flush() == {"0": 2}
        assert read_all(kafka, topic)["0"] == [b"before", b"a"]


class TestTransactions:
    def test_a_fenced_log_says_so_and_nothing_of_it_is_covered(
        self, kafka: Kafka, new_topic: Callable[..., str]
    ) -> None:
        topic = new_topic(1)
        old = KafkaLog.connect(kafka.servers, topic, transactional_id=topic)
        before = old.append(events(b"before"))
        with KafkaLog.connect(kafka.servers, topic, transactional_id=topic) as new:
            with pytest.raises(LogFenced, match=topic):
                old.append(events(b"lost"))
            with pytest.raises(LogFenced, match=topic), old.begin() as transaction:
                transaction.write(events(b"lost too"))
                transaction.commit(Memo("w1", "lost too"))
            assert old.positions() == before
            after = new.append(events(b"after"))  # writing goes on
            assert new.memo("w1") is None
        kafka.wait_until_decided(topic)
        with KafkaLogReader(kafka.servers, topic) as reader:
            stored = list(reader.rows("0", 0, after["0"]))
        assert [row.value for row in stored] == [b"before", b"after"]
        assert after["0"] == stored[-1].offset + 1
        old.close()

    def test_a_transaction_that_kafka_refused_writes_nothing_and_the_next_one_goes_through(
        self, kafka: Kafka, new_topic: Callable[..., str]
    ) -> None:
        topic = new_topic(2, max_message_bytes="1000")
        with KafkaLog.connect(kafka.servers, topic, transactional_id=topic) as log:
            position: dict[str, int] = {}
            for turn in (b"a", b"b"):
                with pytest.raises(LogUnavailable, match=r"too large.*nothing was changed"):
                    log.append(events(b"small") + events(b"x" * 5000, segment="1"))
                assert log.flush() == position
                position = log.append(events(turn))
                assert log.flush() == position
        assert read_all(kafka, topic) == {"0": [b"a", b"b"], "1": []}

    @pytest.mark.parametrize("again", [True, False])
    def test_an_interrupt_right_after_the_commit_loses_nothing_and_writes_nothing_twice(
        self, kafka: Kafka, new_topic: Callable[..., str], again: bool
    ) -> None:
        topic = new_topic(1)
        with KafkaLog.connect(kafka.servers, topic, transactional_id=topic) as log:
            interrupted: Any = Interrupted(log._producer._producer, "commit_transaction")
            log._producer._producer = interrupted
            with pytest.raises(KeyboardInterrupt), log.begin() as transaction:
                transaction.write(events(b"a"))
                transaction.commit()
            if again:
                with pytest.raises(TransactionOver, match="committed, perhaps,"):
                    transaction.commit()
            assert log.flush() == {"0": 1}
            log.append(events(b"b"))
        assert read_all(kafka, topic) == {"0": [b"a", b"b"]}

    def test_an_interrupt_right_after_an_abort_is_got_over(
        self, kafka: Kafka, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        topic = new_topic(1)
        with KafkaLog.connect(kafka.servers, topic, transactional_id=topic) as log:
            interrupted: Any = Interrupted(log._producer._producer, "abort_transaction")
            log._producer._producer = interrupted
            with monkeypatch.context() as failing:
                failing.setattr(log._producer, "_wait", lambda topic: 1 / 0)
                with pytest.raises(KeyboardInterrupt):
                    log.append(events(b"a"))
            log.append(events(b"b"))
        assert read_all(kafka, topic) == {"0": [b"b"]}


class TestReading:
    def test_a_setting_that_would_change_what_is_read_or_is_unknown_is_refused(self) -> None:
        with pytest.raises(InvalidSetting, match=r"isolation\.level.*read_committed"):
            KafkaLogReader("127.0.0.1:1", "orders", settings={"isolation.level": "read_uncommitted"})
        with pytest.raises(InvalidSetting, match=r"ssal\.username"):
            next(KafkaLogReader("127.0.0.1:1", "orders", settings={"ssal.username": "me"}).rows("0", 0, 1))
        with pytest.raises(InvalidSetting, match=r"default\.topic\.config"):
            next(KafkaLogReader("127.0.0.1:1", "orders", settings={"default.topic.config": {}}).rows("0", 0, 1))

    def test_the_settings_of_a_producer_do_not_keep_a_reader_from_reading(
        self, kafka: Kafka, new_topic: Callable[..., str]
    ) -> None:
        topic = new_topic()
        shared = {"message.max.bytes": 8_000_000, "acks": "all", "linger.ms": 5}
        with KafkaLog.connect(kafka.servers, topic, settings=shared) as log:
            log.append([Event(b"x", segment="0")])
            assert log.flush() == {"0": 1}
        with KafkaLogReader(kafka.servers, topic, settings=shared) as reader:
            assert [row.value for row in reader.rows("0", 0, 1)] == [b"x"]

    def test_a_range_is_exact_in_batches_and_in_rows_over_gaps(
        self, kafka: Kafka, new_topic: Callable[..., str]
    ) -> None:
        """Every third transaction is aborted, and each leaves its marker."""
        topic = new_topic(1)
        producer = TrackedProducer({**kafka.client, "transactional.id": topic})
        producer.init_transactions()
        kept: list[tuple[int, bytes]] = []
        for turn in range(9):
            written: list[tuple[int, bytes]] = []
            producer.begin_transaction()
            for part in range(40):
                report = lambda error, message, to=written: to.append((message.offset(), message.value()))  # noqa: E731  # no name tells more
                producer.produce(topic, b"%d %d" % (turn, part), b"key", on_delivery=report)
            producer.flush()
            if turn % 3 == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                kept += written
        kafka.wait_until_decided(topic)
        with KafkaLogReader(kafka.servers, topic) as reader:
            end = reader.end_offsets()["0"]
            assert end == 9 * 41
            for start, stop in [(0, end), (0, 0), (41, 82), (45, 50), (39, 90), (end - 1, end), (300, 333), (81, 82)]:
                expected = [{"offset": at, "value": value} for at, value in kept if start <= at < stop]
                for batch_rows in (7, 1000):
                    batches = list(reader.read("0", start, stop, batch_rows=batch_rows))
                    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
                    found = pa.Table.from_batches(batches, event_schema())
                    assert found.select(["offset", "value"]).to_pylist() == expected
                rows = list(reader.rows("0", start, stop))
                assert [{"offset": row.offset, "value": row.value} for row in rows] == expected
                assert {row.key for row in rows} <= {b"key"}

    def test_an_open_transaction_holds_the_readers_end_and_not_the_logs(
        self, kafka: Kafka, new_topic: Callable[..., str]
    ) -> None:
        topic = new_topic(1)
        producer = TrackedProducer({**kafka.client, "transactional.id": topic})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(topic, b"open")
        producer.flush()
        with KafkaLog.connect(kafka.servers, topic) as log, KafkaLogReader(kafka.servers, topic) as reader:
            log.append(events(b"beside"))
            assert log.flush() == log.end_offsets() == {"0": 2}
            assert reader.end_offsets() == {"0": 0}
            with pytest.raises(NotInLog, match="0 of these 2"):
                list(reader.read("0", 0, 2))
        producer.abort_transaction()

    def test_what_retention_removed_is_not_in_the_log(self, kafka: Kafka, new_topic: Callable[..., str]) -> None:
        topic = new_topic(1)
        with KafkaLog.connect(kafka.servers, topic) as log:
            log.append(events(*(b"%d" % n for n in range(20))))
            log.flush()
        admin = AdminClient(kafka.client)
        (removed,) = admin.delete_records([TopicPartition(topic, 0, 12)]).values()
        removed.result(30)
        with KafkaLogReader(kafka.servers, topic) as reader:
            with pytest.raises(NotInLog, match="8 of these 20"):
                list(reader.read("0", 0, 20))
            assert [row.value for row in reader.rows("0", 12, 20)] == [b"%d" % n for n in range(12, 20)]
            with pytest.raises(NotInLog, match="ask for no more"):
                list(reader.read("0", 15, 21))
            with pytest.raises(NotInLog, match="0 of these 3"):
                list(reader.read("0", 22, 25))
            for unknown in ("1", "nowhere", "-1"):
                with pytest.raises(UnknownSegment, match=f"'{unknown}'"):
                    list(reader.read(unknown, 0, 1))

    def test_what_compaction_took_is_passed_over(self, kafka: Kafka, new_topic: Callable[..., str]) -> None:
        topic = new_topic(1, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
        with KafkaLog.connect(kafka.servers, topic) as log, KafkaLogReader(kafka.servers, topic) as reader:
            for end in range(1, 1000):
                log.append([Event(b"%d" % (end - 1), key=b"always the same")])
                assert log.flush() == {"0": end}
                rows = list(reader.rows("0", 0, end))
                assert [row.value for row in rows] == [b"%d" % row.offset for row in rows]
                assert rows[-1].offset == end - 1
                if len(rows) < end:
                    break
            else:
                pytest.fail("nothing was compacted")
            found = pa.Table.from_batches(reader.read("0", 0, end), event_schema())
            assert found["value"].to_pylist() == [b"%d" % offset for offset in found["offset"].to_pylist()]
            assert found.num_rows < end

    def test_a_reader_may_stop_in_mid_range_and_read_another(self, kafka: Kafka, new_topic: Callable[..., str]) -> None:
        topic = new_topic(2)
        with KafkaLog.connect(kafka.servers, topic) as log:
            log.append(events(*(b"%d" % n for n in range(500))) + events(b"other", segment="1"))
            log.flush()
        with KafkaLogReader(kafka.servers, topic) as reader:
            first = reader.rows("0", 0, 500)
            assert next(first).value == b"0"
            first.close()  # type: ignore[attr-defined]  # it is a generator
            assert [row.value for row in reader.rows("1", 0, 1)] == [b"other"]
            assert len(list(reader.rows("0", 100, 500))) == 400

    def test_a_range_ends_with_an_error_when_its_reader_begins_another(
        self, kafka: Kafka, new_topic: Callable[..., str]
    ) -> None:
        with KafkaLog.connect(kafka.servers, topic := new_topic(2)) as log:
            log.append([Event(b"%d" % n, segment=str(n % 2)) for n in range(2_000)])
            log.flush()
        with KafkaLogReader(kafka.servers, topic) as reader:
            first, second = reader.rows("0", 0, 1_000), reader.rows("1", 0, 1_000)
            begun = [next(first), next(second)]
            with pytest.raises(RangeAbandoned, match=r"1000 of segment '0' .* open a reader for each"):
                list(first)
            assert [row.segment for row in begun] == ["0", "1"]
            assert [row.offset for row in second] == list(range(1, 1_000))
