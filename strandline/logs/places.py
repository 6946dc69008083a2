"""Where a log is, and how it is opened: plain data, which can travel to another process.

Whoever opens logs by what a user named (Spark's source, `strandline assess`, `audit` and `tail`) does so through a
`Place`, so that a log of another kind is its adapter, with a place of its own, and an entry in KINDS. Each imports what
its log needs only when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, Self, TypeAlias

from strandline.logs import Log, LogReader, Position
from strandline.logs.errors import LogUnavailable

if TYPE_CHECKING:
    from strandline.logs.kafka_topic import Topic

DECIDED_ATTEMPTS: Final = 240  # checks of a topic until it has no open transaction, with a pause between them
SERVERS: Final = "bootstrap.servers"
KAFKA_PREFIX: Final = "kafka."

Required: TypeAlias = Callable[[str, str], str]  # an option by its name, and what is wanted if it is not there


class Place(Protocol):
    """Where one log is. `str` names it for people."""

    ends_at_once: ClassVar[bool]  # whether every reader finds the end that another one found before

    @classmethod
    def of(cls, options: Mapping[str, str], required: Required) -> Self:
        """The place in options whose names are in lower case."""

    @classmethod
    def is_at(cls, path: Path) -> bool:
        """Whether a log of this kind may be at a path."""

    def open_reader(self) -> LogReader:
        """Opens the log for reading; the caller closes it."""

    def open_log(self, writer: str) -> Log:
        """Opens the log for appending. The writer fences an earlier one of its name, if the log supports that."""

    def head(self) -> Position:
        """Where the log begins: retention may have removed earlier events."""

    def written_to(self) -> Position:
        """Where the log ends, including open and just committed transactions: every written event lies below."""

    def seal(self, pause: Callable[[], None]) -> Position:
        """Where the log ends for good, in each segment, once no transaction is open; it calls `pause` while it waits.
        A log that can be sealed is."""


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """An embedded log: a file that every machine of the cluster has at the same path."""

    path: str
    ends_at_once: ClassVar = True

    def __str__(self) -> str:
        return repr(self.path)

    @classmethod
    def of(cls, options: Mapping[str, str], required: Required) -> Self:
        return cls(required("path", "the log's file, at the same path on every machine"))

    @classmethod
    def is_at(cls, path: Path) -> bool:
        return not path.is_dir()

    def open_reader(self) -> LogReader:
        from strandline.logs.sqlite_reader import SqliteLogReader

        return SqliteLogReader(self.path)

    def open_log(self, writer: str) -> Log:
        from strandline.logs.sqlite import SqliteLog

        return SqliteLog(self.path)

    def head(self) -> Position:
        from strandline.logs.sqlite_reader import SqliteLogReader

        with SqliteLogReader(self.path) as log:
            return log.head()

    def written_to(self) -> Position:
        with self.open_reader() as log:
            return log.end_offsets()

    def seal(self, pause: Callable[[], None]) -> Position:
        from strandline.logs.sqlite import SqliteLog

        with SqliteLog(self.path) as log:
            return log.seal()


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic, and the client's settings, which may contain a password and are not in `repr`."""

    topic: str
    settings: Mapping[str, str] = field(repr=False)
    ends_at_once: ClassVar = False  # a new leader needs time to learn where its partition ends

    @property
    def servers(self) -> str:
        return self.settings[SERVERS]

    def __str__(self) -> str:
        return f"Kafka topic {self.topic!r} at {self.servers}"

    @classmethod
    def of(cls, options: Mapping[str, str], required: Required) -> Self:
        required(f"{KAFKA_PREFIX}{SERVERS}", "the brokers, as host:port")
        given = options.items()
        settings = {name.removeprefix(KAFKA_PREFIX): value for name, value in given if name.startswith(KAFKA_PREFIX)}
        return cls(options.get("topic") or required("stream", "the stream's name"), settings)

    @classmethod
    def is_at(cls, path: Path) -> bool:
        return False

    def open_reader(self) -> LogReader:
        from strandline.logs.kafka_reader import KafkaLogReader

        return KafkaLogReader(self.servers, self.topic, settings=self.settings)

    def open_log(self, writer: str) -> Log:
        from strandline.logs.kafka import KafkaLog

        return KafkaLog.connect(self.servers, self.topic, transactional_id=writer, settings=self.settings)

    def head(self) -> Position:
        return self._asked().heads()

    def written_to(self) -> Position:
        return self._asked().ends_for_notes()

    def seal(self, pause: Callable[[], None]) -> Position:
        """Kafka cannot be sealed. It answers a commit before every partition has it."""
        topic = self._asked()
        for _ in range(DECIDED_ATTEMPTS):
            ends = topic.ends()
            if topic.ends(committed=True) == ends:
                return ends
            pause()
        raise LogUnavailable(path=str(self), reason="a transaction is still open: commit or abort it")

    def timestamp_type(self) -> str:
        """See `Topic.timestamp_type`."""
        return self._asked().timestamp_type()

    def _asked(self) -> Topic:
        from strandline.logs.kafka_topic import Topic

        return Topic(self.topic, self.settings)


KINDS: Final[dict[str, type[Place]]] = {"sqlite": SqliteFile, "kafka": KafkaTopic}


def place_at(path: Path) -> Place:
    """The log at a path. Of no kind, it is an embedded log, which says what is wrong there."""
    kind = next((each for each in KINDS.values() if each.is_at(path)), SqliteFile)
    return kind.of({"path": str(path)}, lambda _, __: str(path))
