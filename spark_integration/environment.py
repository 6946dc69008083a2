"""Registers the source, and checks early, on the driver, whether Spark can run: Java, and the Python it starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from spark_integration.errors import JavaMissing, PythonMismatch
from spark_integration.listener import is_classic, listen
from spark_integration.mark_watch import MarkWatch
from spark_integration.options import BACKLOG_THRESHOLD
from spark_integration.releases import REPLACES_FOUND
from spark_integration.source import StrandlineSource
from strandline.core.backlog import BacklogStrategy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

PROGRAM_CHECK_S: Final = 60  # how long Java or Python may take to report its version

_KNOWN: Final[WeakSet[SparkSession]] = WeakSet()
_REPLACED: Final[WeakSet[SparkSession]] = WeakSet()  # those with a source that was registered
_PROBE: Final = "import sys, pyarrow, spark_integration.source; print(*sys.version_info[:2])"


def register(spark: SparkSession, *, backlog_strategies: Iterable[BacklogStrategy] = ()) -> None:
    """Registers the source `strandline` with a session, unless Spark has found it by itself and the session has nothing
    set for it, and adds a MarkWatch. Raises PythonMismatch.

    Set `spark.strandline.backlog.watermarkLagThreshold` before: each call reads it. Otherwise a second call changes
    nothing. With Spark Connect the server starts the Python processes and must have the package; there is no watch,
    since it would cost requests (see `listener`).

    `backlog_strategies` apply to each source that is loaded until the next call; `read_events`, `read_between` and
    `attach` call this, too. The job is in backlog while its lag, its remaining offsets, or any strategy finds so. The
    process that plans batches has copies of the strategies and calls them for each batch; their errors end the query.
    """
    if is_classic(spark) and spark not in _KNOWN:
        check_python(spark.sparkContext.pythonExec)
        listen(spark, MarkWatch())
        _KNOWN.add(spark)
    source = _source_for(spark, tuple(backlog_strategies))
    if source is StrandlineSource and spark not in _REPLACED and _is_found(spark):
        return  # Spark would log a warning about the replaced one, now and at the start of each query
    register_source(spark, source)
    _REPLACED.add(spark)


def _is_found(spark: SparkSession) -> bool:
    """Whether Spark has found the source by itself, see `discovered`."""
    if not (REPLACES_FOUND and is_classic(spark)):
        return False
    java: Any = spark
    return bool(java._jsparkSession.sessionState().dataSourceManager().dataSourceExists(StrandlineSource.name()))


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Registers a Python data source with a session.

    Spark refuses a name that the thread's active session has, whichever session registers it. So this session is the
    active one meanwhile.
    """
    with _active(spark) if is_classic(spark) else nullcontext():
        spark.dataSource.register(source)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    java: Any = spark
    sessions = java._jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(java._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _source_for(spark: SparkSession, strategies: tuple[BacklogStrategy, ...]) -> type[StrandlineSource]:
    """Returns the source with the session's settings, which Spark does not pass to a data source."""
    threshold = spark.conf.get(BACKLOG_THRESHOLD, None)
    if threshold is None and not strategies:
        return StrandlineSource
    job = {} if threshold is None else {BACKLOG_THRESHOLD: threshold}
    return type(StrandlineSource.__name__, (StrandlineSource,), {"job": job, "strategies": strategies})


def prepare() -> None:
    """Checks Java, and makes Spark use this Python unless PYSPARK_PYTHON is set. Call it before a session is built.

        prepare()      # before the session is made
        spark = SparkSession.builder.getOrCreate()

    Raises JavaMissing.
    """
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def check_java(environment: Mapping[str, str] = os.environ) -> None:
    """Raises JavaMissing if there is no Java, or one that Spark cannot use."""
    home = environment.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    if shutil.which(java, path=environment.get("PATH")) is None:
        raise JavaMissing(tried=java, reason="there is no such program")
    try:
        run = subprocess.run(
            [java, "--add-modules=jdk.incubator.vector", "-version"], env=environment,
            capture_output=True, text=True, timeout=PROGRAM_CHECK_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(tried=java, reason=str(error)) from error
    if run.returncode != 0:
        raise JavaMissing(tried=java, reason=_last_line(run.stderr or run.stdout))
    release = _java_release(run.stderr)
    if release is not None and release < 17:
        raise JavaMissing(tried=java, reason=f"it is Java {release}")


def check_python(executable: str) -> None:
    """Raises PythonMismatch if a Python cannot import the source, or has another version than this one."""
    if shutil.which(executable) is None:
        raise PythonMismatch(executable=executable, reason="there is no such program")
    try:
        run = subprocess.run(
            [executable, "-c", _PROBE], capture_output=True, text=True, timeout=PROGRAM_CHECK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PythonMismatch(executable=executable, reason=str(error)) from error
    if run.returncode != 0:
        raise PythonMismatch(executable=executable, reason=_last_line(run.stderr))
    here = " ".join(map(str, sys.version_info[:2]))
    if run.stdout.split() != here.split():
        raise PythonMismatch(
            executable=executable,
            reason=f"it is Python {'.'.join(run.stdout.split())}, the driver's is {here.replace(' ', '.')}",
        )


def _java_release(text: str) -> int | None:
    """Returns 17 for `openjdk version "17.0.15" …`, and 8 for the old form, "1.8.0"."""
    quoted = text.split('"')
    if len(quoted) < 2:
        return None
    parts = quoted[1].split(".")
    number = parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0]
    return int(number) if number.isdigit() else None


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it failed without output"
