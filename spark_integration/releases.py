"""Which releases of Spark this package works with."""

from __future__ import annotations

from typing import Final

from pyspark import version as pyspark_version

from spark_integration.errors import SparkMismatch

WORKS: Final = "4.0 or newer, below 5"


def release(version: str) -> tuple[int, int]:
    """Returns (4, 1) for "4.1.4". Raises SparkMismatch if this package does not work with that Spark."""
    major, minor = map(int, version.split(".")[:2])
    if major != 4:
        raise SparkMismatch(installed=version, works=WORKS)
    return major, minor


INSTALLED: Final = pyspark_version.__version__
RELEASE: Final = release(INSTALLED)
