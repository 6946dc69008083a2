"""The log that a command works on: its options, and where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path

import click

from controller.cli.options import kafka_settings_option, needs, option, settings_file
from reader_client.log_checks.event_sources import UNITS
from strandline.logs.places import SERVERS, KafkaTopic, Place, place_at


@dataclass(frozen=True, slots=True)
class NamedLog:
    """An embedded log, or a topic, as a command was given it."""

    path: Path | None
    servers: str | None
    topic: str | None
    settings: Path | None

    def name(self, stream: str) -> str:
        """The name of the log of a stream, wherever it is."""
        return self.path.name if self.path is not None else self.topic or stream

    def place(self, stream: str | None = None) -> Place:
        """Where it is; a topic without a name is called as the stream. Raises UsageError, Failure, and the errors of
        the log."""
        if (self.path is None) == (self.servers is None):
            raise click.UsageError("Name the log: --path for an embedded one, or --servers for a topic; one of these.")
        if self.path is not None:
            return place_at(self.path)
        topic = self.topic or stream
        if topic is None:
            raise click.UsageError("Name the topic: --topic.")
        with needs("kafka"):
            import confluent_kafka  # noqa: F401  # which the topic imports where it is read
        return KafkaTopic(topic, {**settings_file(self.settings), SERVERS: self.servers or ""})


def names_log(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Adds the options that name a log. The command gets it as `log`."""
    at = click.Path(path_type=Path)

    @option(*("--path", "--log", "path"), type=at, metavar="FILE", help="the log, if it is an embedded one")
    @option("--servers", metavar="HOST:PORT,…", help="Kafka's bootstrap servers, if it is a topic")
    @option("--topic", metavar="TOPIC", help="the topic; may be left out if it is called as STREAM")
    @kafka_settings_option
    @wraps(command)
    def run(*given: object, path: Path, servers: str, topic: str, settings: Path, **options: object) -> int | None:
        return command(*given, log=NamedLog(path, servers, topic, settings), **options)

    return run


def reads_log(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Adds the options that name a log, and the field and unit of its events' times."""
    field = option(
        "--field", metavar="NAME", help="the field with an event's time, in JSON values, or . for the whole value"
    )
    unit = option("--unit", type=click.Choice(list(UNITS)), show_default="ms", help="of times that are numbers")
    return names_log(field(unit(command)))
