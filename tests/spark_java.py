"""The options of the Javas that tests start for Spark."""

from __future__ import annotations

from typing import Final

# It begins fast. With one tier of the compiler Java keeps 48 MB for code, which a run of all of tests/spark fills.
SMALL_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
