"""The errors of the Spark side, on top of the tree in `strandline.errors`.

    StrandlineError
    ├── Refused
    │   ├── Conflict
    │   │   ├── MarkDropped          mark_dropped
    │   │   └── GroupTaken           group_taken
    │   └── Invalid
    │       ├── InvalidOption        invalid_option
    │       ├── InvalidOffset        invalid_offset
    │       ├── WrongColumn          wrong_column
    │       ├── WrongSetting         wrong_setting
    │       ├── NotStreaming         not_streaming
    │       └── UnsupportedLimit     unsupported_limit
    ├── Unavailable
    │   ├── NoWindow                 no_window
    │   └── NotYetComplete           not_yet_complete
    └── EnvironmentBroken
        ├── JavaMissing              java_missing
        ├── PythonMismatch           python_mismatch
        └── SparkMismatch            spark_mismatch

While a query runs, errors are raised in a Python process that Spark starts. On the driver they are the text of a
StreamingQueryException, so every message must be clear there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from strandline.errors import Conflict, Invalid, StrandlineError, Unavailable
from strandline.redaction import redact


@dataclass(kw_only=True, eq=False)
class MarkDropped(Conflict):
    code: ClassVar[str] = "mark_dropped"
    columns: tuple[str, ...]

    @property
    def detail(self) -> str:
        return (
            f"the DataFrame has no column 'mark' (it has {', '.join(self.columns)}): it carries the watermark, so "
            f"select it along with your own columns; exact_watermark drops it"
        )


@dataclass(kw_only=True, eq=False)
class GroupTaken(Conflict):
    """The reader group of an attached query follows another query, so its marks are not true for this one."""

    code: ClassVar[str] = "group_taken"
    group: str
    stream: str
    epoch: int

    @property
    def detail(self) -> str:
        return (
            f"registration {self.epoch} of this query with reader group {self.group!r} has ended, so the marks of "
            f"{self.stream!r} no longer follow its positions: another query registered, from a copy of this checkpoint "
            f"or with the same group, or the group was reset. Stop the other one, or give it a checkpoint and a group "
            f"of its own; then start this query again from its checkpoint, which loses nothing"
        )


@dataclass(kw_only=True, eq=False)
class InvalidOption(Invalid):
    code: ClassVar[str] = "invalid_option"
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        given = "is not set" if self.value is None else f"cannot be {self.value!r}"
        return redact(f"option {self.name} of the strandline source {given}: {self.wanted}")


@dataclass(kw_only=True, eq=False)
class InvalidOffset(Invalid):
    code: ClassVar[str] = "invalid_offset"
    offset: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"the offset {self.offset!r} is not valid for the strandline source: {self.wanted}"


@dataclass(kw_only=True, eq=False)
class WrongColumn(Invalid):
    code: ClassVar[str] = "wrong_column"
    column: str
    found: str
    wanted: str

    @property
    def detail(self) -> str:
        return f"column {self.column!r} {self.found}: {self.wanted}"


@dataclass(kw_only=True, eq=False)
class WrongSetting(Invalid):
    """The session has a setting of Spark with which the query would fail later."""

    code: ClassVar[str] = "wrong_setting"
    setting: str
    value: str
    wanted: str

    @property
    def detail(self) -> str:
        return f"{self.setting} cannot be {self.value!r}: {self.wanted}"


@dataclass(kw_only=True, eq=False)
class NotStreaming(Invalid):
    """The DataFrame is of a batch read, which has no watermark."""

    code: ClassVar[str] = "not_streaming"
    call: str

    @property
    def detail(self) -> str:
        return (
            f"{self.call} needs a streaming DataFrame, and this one is read once: begin with spark.readStream. For a "
            f"batch, read_between reads exactly the events between two times"
        )


@dataclass(kw_only=True, eq=False)
class UnsupportedLimit(Invalid):
    code: ClassVar[str] = "unsupported_limit"
    limit: str

    @property
    def detail(self) -> str:
        return f"Spark requested a batch with the limit {self.limit}, which the strandline source does not support"


@dataclass(kw_only=True, eq=False)
class NoWindow(Unavailable):
    """The controller gave no time window within `controllerWaitMs`."""

    code: ClassVar[str] = "no_window"
    controller: str
    waited_ms: int
    reason: str

    @property
    def detail(self) -> str:
        return (
            f"the controller at {self.controller} gave no time window in {self.waited_ms} ms: check that it "
            f"runs and can be reached from Spark's driver, then start the query again from its checkpoint; "
            f"option controllerWaitMs sets how long to wait. The last error: {self.reason}"
        )


@dataclass(kw_only=True, eq=False)
class NotYetComplete(Unavailable):
    """The stream has not reached the time at which a batch read ends."""

    code: ClassVar[str] = "not_yet_complete"
    stream: str
    time: int
    reached: int | None
    held_by: str | None
    waited_ms: int

    @property
    def detail(self) -> str:
        reached = "it has no mark yet" if self.reached is None else f"its marks have reached {self.reached}"
        held = "" if self.held_by is None else f", and {self.held_by} holds it back"
        return (
            f"stream {self.stream!r} is not complete up to {self.time}: {reached}{held}. Read up to an earlier time, "
            f"or set option endingWait to wait longer (this read waited {self.waited_ms} ms)"
        )


class EnvironmentBroken(StrandlineError):
    """Spark cannot run the source here; nothing was started."""


@dataclass(kw_only=True, eq=False)
class JavaMissing(EnvironmentBroken):
    code: ClassVar[str] = "java_missing"
    tried: str
    reason: str

    @property
    def detail(self) -> str:
        return (
            f"Spark needs Java 17 or newer with the module jdk.incubator.vector, and {self.tried!r} "
            f"is not that ({self.reason}): install a full JDK or JRE and set JAVA_HOME to its folder"
        )


@dataclass(kw_only=True, eq=False)
class PythonMismatch(EnvironmentBroken):
    code: ClassVar[str] = "python_mismatch"
    executable: str
    reason: str

    @property
    def detail(self) -> str:
        return (
            f"Spark starts its Python processes from {self.executable!r}, which cannot run the strandline "
            f"source ({self.reason}): set PYSPARK_PYTHON to the Python that has strandline[spark] before the "
            f"session is built"
        )


@dataclass(kw_only=True, eq=False)
class SparkMismatch(EnvironmentBroken):
    code: ClassVar[str] = "spark_mismatch"
    installed: str
    works: str

    @property
    def detail(self) -> str:
        return (
            f"PySpark {self.installed} is installed, and spark_integration works with {self.works}: "
            f"install one of these, as pip install 'strandline[spark]' does"
        )
