"""The location of a stream's log, and how to open it. Plain data, which travels to the executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from spark_integration.offsets import begun
from strandline.logs.errors import LogUnavailable

if TYPE_CHECKING:
    from strandline.logs import Log, LogReader

DECIDED_ATTEMPTS: Final = 240  # checks of a topic until it has no open transaction, REPORT_PAUSE_MS apart

SERVERS: Final = "bootstrap.servers"


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """An embedded log: a file that every machine of the cluster has at the same path."""

    path: str

    def __str__(self) -> str:
        return repr(self.path)


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic, and the client's settings, which may contain a password and are not in `repr`."""

    topic: str
    settings: Mapping[str, str] = field(repr=False)

    @property
    def servers(self) -> str:
        return self.settings[SERVERS]

    def __str__(self) -> str:
        return f"Kafka topic {self.topic!r} at {self.servers}"


Place: TypeAlias = SqliteFile | KafkaTopic


def open_reader(place: Place) -> LogReader:
    """Opens a log for reading; the caller closes it. Imports only what that log needs."""
    match place:
        case SqliteFile(path):
            from strandline.logs.sqlite_reader import SqliteLogReader

            return SqliteLogReader(path)
        case KafkaTopic(topic, settings):
            from strandline.logs.kafka_reader import KafkaLogReader

            return KafkaLogReader(place.servers, topic, settings=settings)
        case _:
            assert_never(place)


def open_log(place: Place, writer: str) -> Log:
    """Opens a log for appending. The writer fences an earlier one of its name, if the log supports that."""
    match place:
        case SqliteFile(path):
            from strandline.logs.sqlite import SqliteLog

            return SqliteLog(path)
        case KafkaTopic(topic, settings):
            from strandline.logs.kafka import KafkaLog

            return KafkaLog.connect(place.servers, topic, transactional_id=writer, settings=settings)
        case _:
            assert_never(place)


def head_of(place: Place) -> dict[str, int]:
    """Returns where a log begins: retention may have removed earlier events."""
    match place:
        case SqliteFile():
            return {}
        case KafkaTopic(topic, settings):
            from strandline.logs.kafka_topic import Topic

            return begun(Topic(topic, settings).heads())
        case _:
            assert_never(place)


def written_to(place: Place) -> dict[str, int]:
    """Returns where a log ends, including open and just committed transactions: every written event lies below."""
    match place:
        case SqliteFile():
            with open_reader(place) as log:
                ends = log.end_offsets()
        case KafkaTopic(topic, settings):
            from strandline.logs.kafka_topic import Topic

            ends = Topic(topic, settings).ends()
        case _:
            assert_never(place)
    return begun(ends)


def decided_end(place: KafkaTopic, *, pause: Callable[[], None]) -> dict[str, int]:
    """Returns where a topic ends, once no transaction is open: Kafka answers a commit before every partition has it."""
    from strandline.logs.kafka_topic import Topic

    topic = Topic(place.topic, place.settings)
    for _ in range(DECIDED_ATTEMPTS):
        ends = topic.ends()
        if topic.ends(committed=True) == ends:
            return ends
        pause()
    raise LogUnavailable(path=str(place), reason="a transaction is still open: commit or abort it")
