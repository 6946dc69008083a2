"""Finds out early, on the driver, whether Spark can run here: Java, and the Python that Spark starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from spark_integration.errors import JavaMissing, PythonMismatch
from spark_integration.listener import is_classic, listen
from spark_integration.mark_source import MarkSource
from spark_integration.mark_watch import MarkWatch
from spark_integration.options import BACKLOG_THRESHOLD
from spark_integration.source import StrandlineSource
from strandline.core.backlog import BacklogStrategy
from strandline.limits import PROGRAM_CHECK_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KNOWN: Final[WeakSet[SparkSession]] = WeakSet()
_PROBE: Final = "import sys, pyarrow, spark_integration.source; print(*sys.version_info[:2])"


def register(spark: SparkSession, *, backlog_strategies: Iterable[BacklogStrategy] = ()) -> None:
    """Makes `spark.readStream.format("strandline")` known to a session, and adds a MarkWatch. Raises PythonMismatch.

    With Spark Connect the Python processes are the server's, and it is the server that must have the package; and
    the watch is left out, since there it costs requests (see `listening`). Doing it again changes nothing, but
    that `spark.strandline.backlog.watermarkLagThreshold` is read again: set it before.

    `backlog_strategies` are the caller's own, for each source that is loaded until the next call, which `read_events`,
    `read_between` and `attach` make too: the job is in backlog while the lag, the remaining offsets, or any of them
    says so. The process that plans batches has copies of them and asks these for each batch; what they raise ends the
    query.
    """
    if is_classic(spark) and spark not in _KNOWN:
        check_python(spark.sparkContext.pythonExec)
        listen(spark, MarkWatch())
        _KNOWN.add(spark)
    spark.dataSource.register(_source_for(spark, tuple(backlog_strategies)))
    spark.dataSource.register(MarkSource)


def _source_for(spark: SparkSession, strategies: tuple[BacklogStrategy, ...]) -> type[StrandlineSource]:
    """The source, with what the session's configuration says of it: a data source is not told that by Spark."""
    threshold = spark.conf.get(BACKLOG_THRESHOLD, None)
    if threshold is None and not strategies:
        return StrandlineSource
    job = {} if threshold is None else {BACKLOG_THRESHOLD: threshold}
    return type(StrandlineSource.__name__, (StrandlineSource,), {"job": job, "strategies": strategies})


def prepare() -> None:
    """Call it before a session is built: checks Java, and has Spark use this Python unless another one is set.

    Raises JavaMissing.
    """
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def check_java(environment: Mapping[str, str] = os.environ) -> None:
    """Raises JavaMissing where no Java, or one that Spark cannot use, would be started."""
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
    """Raises PythonMismatch where a Python cannot import the source, or is of another version than this."""
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
    """17 from `openjdk version "17.0.15" …`, and 8 from the old way of counting, "1.8.0"."""
    quoted = text.split('"')
    if len(quoted) < 2:
        return None
    parts = quoted[1].split(".")
    number = parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0]
    return int(number) if number.isdigit() else None


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it failed without a word"
