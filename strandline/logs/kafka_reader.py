"""The log on Kafka, read side: exact ranges of a topic's partitions, of committed events only.

It skips offsets without an event: transaction markers, aborted events, and events removed by compaction.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import filterfalse
from operator import itemgetter
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from strandline.core.segment import Segment
from strandline.fork import OwningProcess
from strandline.logs import (
    BATCH_BYTES,
    BATCH_FIRST_ROWS,
    BATCH_GROWTH_TIMES,
    BATCH_ROWS,
    Position,
    StoredEvent,
    check_range,
)
from strandline.logs.columns import append_times, event_schema
from strandline.logs.errors import InvalidSetting, LogUnavailable, NotInLog, RangeAbandoned
from strandline.logs.kafka_topic import KAFKA_SOCKET_MS, QUIET, Settings, Topic, client_of

if TYPE_CHECKING:
    import pyarrow as pa

KAFKA_READ_AHEAD_KIB: Final = 2_048  # fetched ahead of the reader; what lies past a range is fetched for nothing

KAFKA_READ_STALL_MS: Final = 60_000  # the longest wait for an event that must be there
KAFKA_READ_SILENCE_MS: Final = 1_000  # without an event; then the topic is asked whether the range is there
KAFKA_READ_WAIT_MS: Final = 10  # how long a broker without further events, or a client that is full, may wait
KAFKA_RECONNECT_MS: Final = 20  # before a reader's second connection; librdkafka waits half of it at each start
KAFKA_READ_AHEAD_ROWS: Final = 10_000_000  # so many that only KAFKA_READ_AHEAD_KIB counts
KAFKA_READ_ROWS: Final = 512  # taken from the client at a time; with 700, Python collects garbage meanwhile
KAFKA_BATCH_ROWS: Final = 8_192  # of an Arrow batch: a larger one gains nothing, and Spark would wait for it

DEFAULTS: Final = {
    **QUIET,
    "group.id": "strandline-reader",  # it joins no group and commits nothing; but a consumer needs one
    "reconnect.backoff.ms": KAFKA_RECONNECT_MS,
    "socket.timeout.ms": KAFKA_SOCKET_MS,
}
READING: Final = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    # Only bytes bound what is fetched ahead. By default librdkafka has a bound of 100 000 messages too, and pauses for
    # a second at either bound; a reader needs a tenth of a second for so many.
    "queued.max.messages.kbytes": KAFKA_READ_AHEAD_KIB,
    "queued.min.messages": KAFKA_READ_AHEAD_ROWS,
    "fetch.queue.backoff.ms": KAFKA_READ_WAIT_MS,
    "fetch.max.bytes": KAFKA_READ_AHEAD_KIB * 1024,
    # The requested events exist, so no fetch needs to wait. A fetch that waits past the end of a range delays the next
    # range: librdkafka has one fetch under way for each broker.
    "fetch.wait.max.ms": KAFKA_READ_WAIT_MS,
}


class KafkaLogReader:
    """Reads a topic, one range at a time. For one thread at a time; another process opens its own.

    It has two clients: one that asks about the topic, and one that fetches. Each is made when it is first needed, since
    a client takes some milliseconds: a task of Spark, which reads a range that the driver has planned, only fetches.

    For example:

        KafkaLogReader("127.0.0.1:9092", "orders")
    """

    def __init__(self, servers: str, topic: str, *, settings: Settings | None = None) -> None:
        """`settings` are librdkafka's. The first call raises TopicMissing if there is no such topic, and the first
        range InvalidSetting if librdkafka has no such setting."""
        self._name = topic
        self._given = {**(settings or {}), "bootstrap.servers": servers}
        self._given.pop("message.max.bytes", None)  # a producer's: a consumer would want its own bounds to fit
        for name, ours in READING.items():
            if str(self._given.get(name, ours)).lower() != str(ours).lower():
                wanted = f"{ours}: a reader sets it itself"
                raise InvalidSetting(name=name, value=self._given[name], wanted=wanted)
        self._asking: Topic | None = None  # until the first question
        self._consumer: Consumer | None = None  # until the first range is read
        self._newest: object = None  # the range that the client fetches
        self._origin = OwningProcess(f"the reader of topic {topic!r}")

    def end_offsets(self) -> Position:
        """The last stable offset of each partition, one after the other: below it no transaction is open."""
        return self._topic.ends(committed=True)

    def segments(self) -> list[Segment]:
        """A segment for each partition, without key ranges: Kafka's producers choose the partition of a key."""
        return [Segment(id=str(number), created_at=0) for number in self._topic.partitions()]

    def read(self, segment: str, start: int, end: int, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The events from `start` up to, not including, `end`, as Arrow batches with `event_schema()`.

        A batch has at most `batch_rows` rows and KAFKA_BATCH_ROWS, and about BATCH_BYTES bytes. The iterator raises
        UnknownSegment, and NotInLog if retention has removed a part of the range, or a transaction in it may be open.
        """
        most = min(batch_rows, KAFKA_BATCH_ROWS)
        return _batches(segment, self._messages(segment, start, end, min(most, KAFKA_READ_ROWS)), most)

    def rows(self, segment: str, start: int, end: int) -> Iterator[StoredEvent]:
        """Like `read`, one event at a time."""
        return (_event_of(each) for found in self._messages(segment, start, end, BATCH_FIRST_ROWS) for each in found)

    def close(self) -> None:
        if self._consumer is not None and self._origin.is_here:
            self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _topic(self) -> Topic:
        self._origin.check()
        if self._asking is None:
            self._asking = Topic(self._name, self._given)
        return self._asking

    def _check_range(self, segment: str, start: int, end: int) -> None:
        """Raises UnknownSegment, or NotInLog, unless the topic has the whole range."""
        check_range([str(number) for number in self._topic.partitions()], segment, start, end)
        if start == end:
            return
        last = self._topic.ends(committed=True, partitions=[int(segment)])[segment]
        first = self._topic.heads([int(segment)])[segment]
        if start < first or end > last:
            there = max(0, min(end, last) - max(start, first))
            below = first if start < first else None
            raise NotInLog(segment=segment, start=start, end=end, found=there, first=below)

    def _messages(self, segment: str, start: int, end: int, most: int) -> Iterator[list[Message]]:
        """The messages of a range in lists, none of them empty. What the broker does not deliver is checked."""
        if not (segment.isdecimal() and 0 <= start < end):
            self._check_range(segment, start, end)
            return
        rows, place = min(BATCH_FIRST_ROWS, most), start
        consumer = self._assigned(TopicPartition(self._name, int(segment), start))
        self._newest = own = object()
        try:
            last_found = time.monotonic()
            while place < end:
                if self._newest is not own:
                    raise RangeAbandoned(topic=self._name, segment=segment, start=start, end=end)
                found = self._portion(consumer, min(rows, end - place))
                events = list(filterfalse(Message.error, found))
                ended = [self._is_end(each, segment, start, end) for each in filter(Message.error, found)]
                within = events[: bisect_left(events, end, key=_offset)]
                if within:
                    yield within
                    rows = _next_rows(within, rows, most)
                if any(ended) or len(within) < len(events):
                    place = end
                elif within:
                    place = _offset(within[-1]) + 1
                if found:
                    last_found = time.monotonic()
                    continue
                self._check_range(segment, start, end)
                if time.monotonic() - last_found > KAFKA_READ_STALL_MS / 1000:
                    raise LogUnavailable(path=self._topic.path, reason=f"nothing came for {KAFKA_READ_STALL_MS} ms")
        finally:
            if self._origin.is_here and self._newest is own:
                consumer.unassign()

    def _assigned(self, place: TopicPartition) -> Consumer:
        """The client, which fetches from this place. The first call makes it, and not `__init__`: a librdkafka client
        that gets its first partition some milliseconds after it was made takes a second to connect to its broker."""
        self._origin.check()
        if self._consumer is None:
            self._consumer = client_of(Consumer, {**DEFAULTS, **self._given, **READING})
            self._origin.keep(self._consumer)
        self._consumer.assign([place])
        return self._consumer

    def _portion(self, consumer: Consumer, rows: int) -> list[Message]:
        """The messages available, once there is one. `consume` alone would wait until it has as many as requested."""
        self._origin.check()
        first = consumer.poll(KAFKA_READ_SILENCE_MS / 1000)
        if first is None:
            return []
        more = consumer.consume(rows - 1, KAFKA_READ_WAIT_MS / 1000) if rows > 1 and not first.error() else []
        return [first, *more]

    def _is_end(self, message: Message, segment: str, start: int, end: int) -> bool:
        """Whether a message without an event tells that the partition ends at or past the range's end.

        A new leader may report an earlier end at first, which does not count.
        """
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            return _offset(message) >= end
        self._check_range(segment, start, end)
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            first = self._topic.heads([int(segment)])[segment]  # retention removed events meanwhile
            there = max(0, end - max(start, first))
            raise NotInLog(segment=segment, start=start, end=end, found=there, first=first)
        raise LogUnavailable(path=self._topic.path, reason=error.str())  # the client hides transient errors


def _next_rows(found: list[Message], rows: int, most: int) -> int:
    """The number of rows of the next batch, by the size of these messages."""
    size = sum(map(len, found))
    fitting = len(found) * BATCH_BYTES // max(1, size)
    return max(1, min(rows * BATCH_GROWTH_TIMES, fitting, most))


def _batches(segment: str, portions: Iterator[list[Message]], most: int) -> Iterator[pa.RecordBatch]:
    """Arrow batches of at most so many rows and about BATCH_BYTES bytes. A batch costs Spark as much as some hundred
    rows, so it has those of several portions; their messages do not wait for that, or Python would collect them."""
    columns, size = EventColumns(), 0
    for found in portions:
        if columns.offsets and len(columns.offsets) + len(found) > most:
            yield columns.batch(segment)
            columns, size = EventColumns(), 0
        columns.extend(found)
        size += sum(map(len, found))
        if size >= BATCH_BYTES:
            yield columns.batch(segment)
            columns, size = EventColumns(), 0
    if columns.offsets:
        yield columns.batch(segment)


@dataclass(slots=True)
class EventColumns:
    """The columns of a batch in the making."""

    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    offsets: list[int | None] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)

    def extend(self, found: list[Message]) -> None:
        self.keys.extend(map(Message.key, found))
        self.values.extend(map(Message.value, found))
        self.offsets.extend(map(Message.offset, found))
        self.times_ms.extend(map(_SECOND, map(Message.timestamp, found)))

    def batch(self, segment: str) -> pa.RecordBatch:
        import pyarrow as pa

        return pa.RecordBatch.from_arrays(
            [
                pa.array(self.keys, pa.binary()),
                pa.array(self.values, pa.binary()),
                pa.repeat(pa.scalar(segment), len(self.offsets)),
                pa.array(self.offsets, pa.int64()),
                append_times(pa.array(self.times_ms, pa.int64())),
            ],
            schema=event_schema(),
        )


_SECOND: Final = itemgetter(1)


def _event_of(message: Message) -> StoredEvent:
    key, value = message.key(), message.value()
    return StoredEvent(str(message.partition()), _offset(message), key, value, message.timestamp()[1])


def _offset(message: Message) -> int:
    return message.offset() or 0
