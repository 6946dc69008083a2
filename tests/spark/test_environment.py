"""A machine on which Spark cannot run says why, before anything is started."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_integration.environment import check_java, check_python, register
from spark_integration.errors import JavaMissing, PythonMismatch
from spark_integration.options import BACKLOG_THRESHOLD


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_this_machine_has_a_java_that_will_do() -> None:
    check_java()


def test_no_java_at_all_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match=r"'java'.*no such program.*JAVA_HOME"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(JavaMissing, match=f"{tmp_path}/bin/java"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "Java 11"),
        ("echo 'java version \"1.8.0_202\"' >&2", "Java 8"),
        (
            "echo 'java.lang.module.FindException: Module jdk.incubator.vector not found' >&2; exit 1",
            "vector",
        ),
    ],
)
def test_a_java_that_spark_cannot_use_is_named(tmp_path: Path, script: str, reason: str) -> None:
    program(tmp_path / "bin" / "java", script)
    with pytest.raises(JavaMissing, match=reason):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


def test_a_python_that_is_not_there_is_named() -> None:
    with pytest.raises(PythonMismatch, match=r"'/nowhere/python'.*PYSPARK_PYTHON"):
        check_python("/nowhere/python")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo \"ModuleNotFoundError: No module named 'pyarrow'\" >&2; exit 1", "No module named 'pyarrow'"),
        ("echo 3 9", r"Python 3\.9, the driver's is 3\.1"),
    ],
)
def test_a_python_that_cannot_run_the_source_says_why(tmp_path: Path, script: str, reason: str) -> None:
    python = program(tmp_path / "python", script)
    with pytest.raises(PythonMismatch, match=reason):
        check_python(str(python))


def test_a_python_without_the_package_is_refused(tmp_path: Path) -> None:
    python = program(tmp_path / "python", f'exec "{sys.executable}" -I -S "$@"')
    with pytest.raises(PythonMismatch, match="No module named"):
        check_python(str(python))


@pytest.mark.spark
def test_register_refuses_a_wrong_pyspark_python_at_once(spark: SparkSession) -> None:
    context = spark.sparkContext
    usual = context.pythonExec  # PYSPARK_PYTHON, as it was when the session began
    context.pythonExec = "/nowhere/python"
    try:
        with pytest.raises(PythonMismatch, match=r"'/nowhere/python'.*PYSPARK_PYTHON"):
            register(spark.newSession())
    finally:
        context.pythonExec = usual


@pytest.mark.spark
def test_register_replaces_the_source_that_spark_has_found_only_where_the_session_has_settings_for_it(
    spark: SparkSession,
) -> None:
    """Spark logs a warning about each one that is replaced, at the start of each query too."""
    session, other = spark.newSession(), spark.newSession()

    def source(one: SparkSession) -> Any:
        java: Any = one
        return java._jsparkSession.sessionState().dataSourceManager().lookupDataSource("strandline")

    register(session)
    assert source(session).equals(source(other))
    session.conf.set(BACKLOG_THRESHOLD, "1 hour")
    register(session)
    with_settings = source(session)
    assert not with_settings.equals(source(other))
    session.conf.unset(BACKLOG_THRESHOLD)
    register(session)
    assert not source(session).equals(with_settings)
