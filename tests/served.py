"""A real controller in a process of its own, for tests that look at it through a connection."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strandline.config import StreamConfig
from strandline.protocol.transport import Connection

ROOT = Path(__file__).resolve().parents[1]

# Marks with every advance, and times that need not be near the clock.
AT_ONCE = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None)


@contextmanager
def served(database: Path) -> Iterator[Connection]:
    """`strandline serve` on a free port of the loopback interface, with this store."""
    command = [sys.executable, "-m", "controller", "serve", "--database", str(database), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert " at http://" in line, f"the controller did not start, and said {line!r}"
            with Connection(line.rpartition(" at ")[2].strip()) as connection:
                yield connection
        finally:
            process.terminate()
