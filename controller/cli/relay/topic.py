"""The topic of notes, as a member of a consumer group reads it. Needs the `kafka` extra."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from strandline.logs.errors import LogUnavailable
from strandline.logs.kafka_topic import KAFKA_SOCKET_MS, QUIET, Settings, Topic, client_of, connecting

TAKEN_RECORDS: Final = 1_000  # at a time
TAKEN_WITHIN_S: Final = 0.1
MISSED_AFTER_MS: Final = 10_000  # without a sign of life; then others read its partitions

_UNKNOWN: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


class Record(NamedTuple):
    """A record of the topic."""

    partition: int
    offset: int
    value: bytes | None


class NotesTopic:
    """Reads committed records from where the group has come to. For one thread."""

    def __init__(self, topic: str, group: str, settings: Settings) -> None:
        """Raises TopicMissing, and LogUnavailable."""
        self.name = topic
        self.positions: dict[int, int] = {}  # up to where each assigned partition was read
        self._servers = str(settings.get("bootstrap.servers", ""))
        # By partition that was not yet read to where it ended when it was assigned, that end; None until it is asked.
        self._unread: dict[int, int | None] = {}
        self._gone: set[int] = set()
        self._topic = Topic(topic, settings)
        self._topic.partitions()
        self._consumer = client_of(
            Consumer,
            {
                **QUIET,
                **connecting(settings),
                "socket.timeout.ms": KAFKA_SOCKET_MS,
                "group.id": group,
                "session.timeout.ms": MISSED_AFTER_MS,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "partition.assignment.strategy": "cooperative-sticky",
            },
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def take(self) -> list[Record]:
        """The next records, as soon as there are some. Raises LogUnavailable for what will not end by itself."""
        asked = [partition for partition, end in self._unread.items() if end is None]
        if asked:
            self._unread.update(
                (int(each), end) for each, end in self._topic.ends(committed=True, partitions=asked).items()
            )
        taken = []
        for message in self._consumer.consume(TAKEN_RECORDS, TAKEN_WITHIN_S):
            partition, offset = message.partition(), message.offset()
            error = message.error()
            if error is not None:
                self._fail(error, message)
            elif partition in self.positions and offset is not None:
                self._come(partition, offset + 1)
                taken.append(Record(partition, offset, message.value()))
        return taken

    def is_read(self, partition: int) -> bool:
        """Whether a partition was read to its end since it was assigned."""
        return partition in self.positions and partition not in self._unread

    def gone(self) -> set[int]:
        """The partitions that others may have read since the last call."""
        found, self._gone = self._gone, set()
        return found

    def commit(self, offsets: Mapping[int, int]) -> bool:
        """Stores up to where nobody needs to read again. Returns whether the group still counts this member."""
        places = [TopicPartition(self.name, each, offset) for each, offset in offsets.items() if each in self.positions]
        if not places:
            return True
        try:
            stored = self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException:
            return False  # the next commit tries again, or there is another member in its place
        return all(each.error is None for each in stored or ())

    def behind(self) -> dict[int, int]:
        """How many records of each partition were not yet read, as far as the client knows."""
        found = {}
        for partition, position in self.positions.items():
            with suppress(KafkaException):
                _, high = self._consumer.get_watermark_offsets(TopicPartition(self.name, partition), cached=True)
                if high != OFFSET_INVALID:
                    found[partition] = max(0, high - position)
        return found

    def close(self) -> None:
        """Leaves the group, so that others take over at once."""
        self._consumer.close()

    def _come(self, partition: int, position: int) -> None:
        """A partition was read up to there. Where records come all the time, nothing else says that it was read to its
        end."""
        self.positions[partition] = max(position, self.positions[partition])
        end = self._unread.get(partition)
        if end is not None and position >= end:
            del self._unread[partition]

    def _fail(self, error: KafkaError, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error.code() == KafkaError._PARTITION_EOF:
            if partition in self.positions and offset is not None:
                self._come(partition, offset)
                self._unread.pop(partition, None)
        elif error.code() not in _UNKNOWN and not error.retriable():
            raise LogUnavailable(path=f"{self.name} at {self._servers}", reason=error.str())

    def _assigned(self, _: Consumer, places: Iterable[TopicPartition]) -> None:
        for each in places:
            self.positions[each.partition] = -1
            self._unread[each.partition] = None

    def _revoked(self, _: Consumer, places: Iterable[TopicPartition]) -> None:
        for each in places:
            self.positions.pop(each.partition, None)
            self._unread.pop(each.partition, None)
            self._gone.add(each.partition)
