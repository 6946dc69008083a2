"""The topic of notes, as a member of a consumer group reads it. Needs the `kafka` extra."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from strandline.logs.errors import LogUnavailable
from strandline.logs.kafka_topic import KAFKA_SOCKET_MS, QUIET, Settings, Topic, client_of, connecting
from strandline.paced_log import PacedLog, Waiting

TAKEN_RECORDS: Final = 1_000  # at a time
TAKEN_WITHIN_S: Final = 0.1
MISSED_AFTER_MS: Final = 10_000  # without a sign of life; then others read its partitions
REFRESHED_MS: Final = 2_000  # between two looks for new partitions

# Errors that end by themselves, as that of a consumer which hung for so long that the group gave it up.
_PASSING: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._MAX_POLL_EXCEEDED)

READS: Final = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "cooperative-sticky",
}


class Record(NamedTuple):
    """A record of the topic."""

    partition: int
    offset: int
    value: bytes | None


def member(group: str, settings: Settings) -> Consumer:
    """A consumer that is a member of a group. Raises InvalidSetting."""
    return client_of(
        Consumer,
        {
            **QUIET,
            "topic.metadata.refresh.interval.ms": REFRESHED_MS,
            **connecting(settings),
            "socket.timeout.ms": KAFKA_SOCKET_MS,
            "group.id": group,
            "session.timeout.ms": MISSED_AFTER_MS,
            **READS,
        },
    )


class NotesTopic:
    """Reads committed records from where the group has come to. For one thread."""

    def __init__(self, topic: Topic, consumer: Consumer) -> None:
        """`consumer` is a member of the group. Raises TopicMissing, and LogUnavailable."""
        self.name = topic.name
        self.positions: dict[int, int] = {}  # up to where each assigned partition was read
        # By partition that was not yet read to where it ended when it was assigned, that end; None until it is asked.
        self._unread: dict[int, int | None] = {}
        self._gone: set[int] = set()
        self._waiting = Waiting(PacedLog("strandline"))
        self._topic = topic
        self._topic.partitions()
        self._consumer = consumer
        consumer.subscribe([self.name], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def take(self) -> list[Record]:
        """The next records, as soon as there are some. Raises LogUnavailable for what will not end by itself."""
        self._ask_ends()
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
        """Stores up to where nobody needs to read again. Returns whether the group still counts this member.

        Then the member has all partitions but those that `gone` returns: others get one when the member has given it
        up in `take`, or when the group has given up the member.
        """
        places = [TopicPartition(self.name, each, offset) for each, offset in offsets.items() if each in self.positions]
        if not places:
            return False
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

    def _ask_ends(self) -> None:
        """Asks for ends that are not known. What a partition without a leader says waits for it; the others go on."""
        asked = [partition for partition, end in self._unread.items() if end is None]
        found, why = self._topic.known_ends(asked) if asked else ({}, "")
        self._unread.update((int(each), end) for each, end in found.items())
        if why:
            self._waiting.goes_on(f"{self._topic.path}: its notes wait for {why}")
        else:
            self._waiting.ends(f"{self._topic.path}: no partition's notes wait any more")

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
        elif error.code() not in _PASSING and not error.retriable():
            raise LogUnavailable(path=self._topic.path, reason=error.str())

    def _assigned(self, _: Consumer, places: Iterable[TopicPartition]) -> None:
        for each in places:
            self.positions[each.partition] = -1
            self._unread[each.partition] = None

    def _revoked(self, _: Consumer, places: Iterable[TopicPartition]) -> None:
        for each in places:
            self.positions.pop(each.partition, None)
            self._unread.pop(each.partition, None)
            self._gone.add(each.partition)
