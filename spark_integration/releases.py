"""Which releases of Spark this package works with, and what those before 4.2 lack.

Since Spark 4.2 a Python source gets where its next batch begins and how large it may be, and it can prepare an
`availableNow` run. The types for this come from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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
HAS_LIMITS: Final = RELEASE >= (4, 2)
REPLACES_FOUND: Final = RELEASE >= (4, 1)  # a session may register a source that was found by its name

if TYPE_CHECKING or HAS_LIMITS:
    from pyspark.sql.streaming import datasource

    ReadLimit = datasource.ReadLimit
    ReadAllAvailable = datasource.ReadAllAvailable
    ReadMaxRows = datasource.ReadMaxRows
    SupportsTriggerAvailableNow = datasource.SupportsTriggerAvailableNow
else:

    class ReadLimit:
        """What a batch may have."""

    @dataclass(frozen=True)
    class ReadAllAvailable(ReadLimit):
        """Everything."""

    @dataclass(frozen=True)
    class ReadMaxRows(ReadLimit):
        """That many rows."""

        max_rows: int

    class SupportsTriggerAvailableNow:
        """Spark does not look for it."""
