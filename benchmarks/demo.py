"""How long a newcomer waits for the demo's first line: in plain Python, and on Spark. Beside it, a command that prints
a line and does nothing else.

    python -m benchmarks.demo [--rounds 3] [--spark 1]

The demo is ended after its first line. What `make demo` installs before is not measured.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, Report, arguments, median, run

PROGRAM: Final = Path(sys.executable).with_name("strandline")
END_DEADLINE_S: Final = 30


def until_first_line(*given: str) -> float:
    """Seconds."""
    begun = time.perf_counter()
    with subprocess.Popen([PROGRAM, *given], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        assert demo.stdout is not None
        line = demo.stdout.readline()
        took = time.perf_counter() - begun
        demo.terminate()
        demo.communicate(timeout=END_DEADLINE_S)
    if not line.strip():
        raise SystemExit(f"strandline {' '.join(given)} printed nothing")
    return took


def measure(options: argparse.Namespace) -> Report:
    def waited(*given: str) -> float:
        return median([until_first_line(*given) for _ in range(options.rounds)])

    report, version = Report(), waited("--version")
    ways: dict[str, tuple[str, ...]] = {"in plain Python": ("demo",)}
    if options.spark:
        ways["on Spark"] = ("demo", "--spark")
    for name, given in ways.items():
        seconds = waited(*given)
        print(f"{name:16} {seconds:6.2f} s")
        what = f"first line of the demo {name}"
        report.figures.append(Figure.of(what, seconds, "strandline --version", version, "s"))
    return report


def main() -> None:
    run(measure, arguments(__doc__, rounds=3, spark=1).parse_args())


if __name__ == "__main__":
    main()
