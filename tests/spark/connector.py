"""Spark's own Kafka connector."""

from __future__ import annotations

from tools.jars import JarsError, fetched


def connector_jars() -> str:
    """Its jars, as `spark.jars` has them: each Java begins with them; none where Maven Central cannot be had."""
    try:
        return ",".join(sorted(map(str, fetched("spark-kafka").glob("*.jar"))))
    except JarsError:
        return ""
