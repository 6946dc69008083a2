"""The errors of the Spark side, beside those in `strandline.errors`.

While a query runs, errors are raised in a Python process that Spark starts. On the driver they are the text of a
StreamingQueryException, so every message must be clear there, and stands in its first line: see `sentence_first`.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from copy import copy
from types import TracebackType
from typing import Any, Final

from strandline.errors import Conflict, Invalid, StrandlineError, Unavailable
from strandline.redaction import redact


class MarkDropped(Conflict):
    columns: tuple[str, ...]

    @property
    def detail(self) -> str:
        return (
            f"the DataFrame has no column 'mark' (it has {', '.join(self.columns)}): it carries the watermark, so "
            f"select it along with your own columns; exact_watermark drops it"
        )


class GroupTaken(Conflict):
    """The reader group of an attached query follows another query, so its marks are not true for this one."""

    says = (
        "registration {epoch} of this query with reader group {group!r} has ended, so the marks of {stream!r} no "
        "longer follow its positions: another query registered, from a copy of this checkpoint or with the same "
        "group, or the group was reset. Stop the other one, or give it a checkpoint and a group of its own; then "
        "start this query again from its checkpoint, which loses nothing"
    )
    group: str
    stream: str
    epoch: int


class InvalidOption(Invalid):
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        given = "is not set" if self.value is None else f"cannot be {self.value!r}"
        return redact(f"option {self.name} of the strandline source {given}: {self.wanted}")


class InvalidOffset(Invalid):
    says = "the offset {offset!r} is not valid for the strandline source: {wanted}"
    offset: Any
    wanted: str


class WrongColumn(Invalid):
    says = "column {column!r} {found}: {wanted}"
    column: str
    found: str
    wanted: str


class WrongSetting(Invalid):
    """The session has a setting of Spark with which the query would fail later."""

    says = "{setting} cannot be {value!r}: {wanted}"
    setting: str
    value: str
    wanted: str


class NotStreaming(Invalid):
    """The DataFrame is of a batch read, which has no watermark."""

    says = (
        "{call} needs a streaming DataFrame, and this one is read once: begin with spark.readStream. For a batch, "
        "read_between reads exactly the events between two times"
    )
    call: str


class UnsupportedLimit(Invalid):
    says = "Spark requested a batch with the limit {limit}, which the strandline source does not support"
    limit: str


class NoWindow(Unavailable):
    """The controller gave no time window within `controllerWaitMs`."""

    says = (
        "the controller at {controller} gave no time window in {waited_ms} ms: check that it runs and can be "
        "reached from Spark's driver, then start the query again from its checkpoint; option controllerWaitMs sets "
        "how long to wait. The last error: {reason}"
    )
    controller: str
    waited_ms: int
    reason: str


class NotYetComplete(Unavailable):
    """The stream has not reached the time at which a batch read ends."""

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


class JavaMissing(EnvironmentBroken):
    says = (
        "Spark needs Java 17 or newer with the module jdk.incubator.vector, and {tried!r} is not that ({reason}): "
        "install a full JDK or JRE and set JAVA_HOME to its folder"
    )
    tried: str
    reason: str


class PythonMismatch(EnvironmentBroken):
    says = (
        "Spark starts its Python processes from {executable!r}, which cannot run the strandline source ({reason}): "
        "set PYSPARK_PYTHON to the Python that has the extra `spark` of Strandline before the session is built"
    )
    executable: str
    reason: str


class SparkMismatch(EnvironmentBroken):
    says = (
        "PySpark {installed} is installed, and spark_integration works with {works}: install one of these, as pip "
        "install '.[spark]' in a clone of Strandline does"
    )
    installed: str
    works: str


class SentenceFirst(ContextDecorator):
    """Around what Spark calls in a Python process: the sentence of an error is in the first line of Spark's message.

    Spark takes the text of a traceback, which ends with the error, and puts its own text behind it. A cause is printed
    before that, and without frames it is one line, so the cause is a copy of the error. The frames in here are left
    out.
    """

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, StrandlineError):
            raise error.with_traceback(None) from copy(error)


sentence_first: Final = SentenceFirst()
