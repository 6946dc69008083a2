"""Where a stream's events lie: which log, and how to open it. Plain data, so that it travels to the executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, assert_never

if TYPE_CHECKING:
    from logs import LogReader


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """An embedded log: a file that every machine of the cluster sees at the same path."""

    path: str

    def __str__(self) -> str:
        return repr(self.path)


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic, and the client's settings, which may hold a password and show in no representation."""

    topic: str
    settings: Mapping[str, str] = field(repr=False)

    def __str__(self) -> str:
        return f"Kafka topic {self.topic!r} at {self.settings['bootstrap.servers']}"


Place: TypeAlias = SqliteFile | KafkaTopic


def open_reader(place: Place) -> LogReader:
    """Opens the read side of a log; close it. Imports only what that log needs."""
    match place:
        case SqliteFile(path):
            from logs.sqlite_reader import SqliteLogReader

            return SqliteLogReader(path)
        case KafkaTopic(topic, settings):
            from logs.kafka_reader import KafkaLogReader

            return KafkaLogReader(dict(settings), topic)
        case _:
            assert_never(place)
