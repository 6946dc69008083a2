"""Runs a fixed set of tests on each release line of Spark that works, and prints a table of the results.

    .venv/bin/python -m tools.versions 4.0.5 4.1.4

Each Spark gets an environment of its own in .versions: it has its own pyspark, and everything else from .venv. The
first time this downloads 450 MB for each of them. Without versions as arguments it runs all of `SPARKS` but that of
.venv, on which `make test` and `make full` run these tests.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tools.jars import CONNECTOR

ROOT: Final = Path(__file__).resolve().parents[1]
VERSIONS: Final = ROOT / ".versions"
# Each Spark, and the py4j that it asks for.
SPARKS: Final = {"4.0.5": "0.10.9.9", "4.1.4": "0.10.9.9", "4.2.1": "0.10.9.9"}
# Their Kafka connectors, as Maven Central has them.
CONNECTORS: Final = {"4.0": "4.0.1", "4.1": "4.1.1"}
# What a user does with Spark, and the tests of it.
READ_PATHS: Final = {
    "the source `strandline`: restarts, replays, filters, operators, `availableNow`": (
        "test_exact_watermark",
        "test_driver",
        "test_releases",
        "test_operators",
    ),
    "`attach`, files": ("test_attach",),
    "every operator, through batches in which one side has no rows: the source, `attach`": ("test_one_sided_batches",),
    "Kafka: `attach` to the connector, the source, an untouched topic": ("test_kafka",),
    "batch reads, groups, late rows": ("test_events",),
    "chains": ("test_chain",),
}
# They limit batches, which Spark's Python sources can do since 4.2.
LIMITS: Final = {
    "test_exact_watermark": (
        "test_available_now_reads_what_is_there_within_the_budget_fairly_and_stops",
        "test_splits_and_merges_are_read_in_order_and_close_windows",
    ),
    "test_events": (
        "test_batches_are_large_in_backlog_and_small_when_caught_up",
        "test_a_callers_own_strategy_makes_batches_large",
    ),
}


def main() -> int:
    given = parse(sys.argv[1:])
    results = {}
    for spark in given.sparks:
        python = Path(sys.executable) if spark == version("pyspark") else environment(spark)
        if not given.set_up_only:
            results[spark] = tried(python, spark)
    for line in table(results) if results else []:
        print(line)
    return 0 if all(bad == 0 for found in results.values() for _, bad in found.values()) else 1


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What to run: `sparks`, by version, and `set_up_only`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ours = version("pyspark")
    others, known = [spark for spark in SPARKS if spark != ours], list(dict.fromkeys([*SPARKS, ours]))
    parser.add_argument("sparks", nargs="*", metavar="SPARK", help=f"{', '.join(known)}; all but {ours} unless given")
    parser.add_argument("--set-up-only", action="store_true", help="make the environments, and run nothing")
    given = parser.parse_args(arguments)
    if unknown := set(given.sparks) - set(known):
        parser.error(f"there is no Spark {', '.join(sorted(unknown))} here: give {', '.join(known)}")
    given.sparks = given.sparks or others
    return given


def environment(spark: str) -> Path:
    """Makes the environment of a Spark, unless it is there already; its Python."""
    folder = VERSIONS / spark
    python = folder / "bin" / "python"
    if python.exists():
        return python
    print(f"strandline: setting up Spark {spark} in {folder.relative_to(ROOT)}", flush=True)
    draft = VERSIONS / f"{spark}.draft"
    shutil.rmtree(draft, ignore_errors=True)
    venv.create(draft, symlinks=True)
    packages = draft / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation"]
    install += ["--no-deps", "--target", str(packages), f"pyspark=={spark}", f"py4j=={SPARKS[spark]}"]
    subprocess.run(install, cwd=draft, check=True)
    (packages / "others.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    draft.rename(folder)
    return python


def tried(python: Path, spark: str) -> dict[str, tuple[int, int]]:
    """Runs the tests; for each path, how many passed and how many did not."""
    report = VERSIONS / f"{spark}.xml"
    VERSIONS.mkdir(exist_ok=True)
    report.unlink(missing_ok=True)
    command: list[str | Path] = [python, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}"]
    command += [f"tests/spark/{file}.py" for files in READ_PATHS.values() for file in files]
    line = spark.rpartition(".")[0]
    if tuple(map(int, line.split("."))) < (4, 2):
        command += [f"--deselect=tests/spark/{file}.py::{test}" for file, tests in LIMITS.items() for test in tests]
    print(f"strandline: testing on Spark {spark}", flush=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    if line in CONNECTORS:
        environment[CONNECTOR] = CONNECTORS[line]
    subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return results_of(report.read_text())


def results_of(report: str) -> dict[str, tuple[int, int]]:
    """Reads pytest's report: for each path, how many passed and how many did not. A skipped test did not pass."""
    passed, bad = Counter[str](), Counter[str]()
    for case in ElementTree.fromstring(report).iter("testcase"):
        file = case.get("classname", "").split(".")[2]
        (bad if any(each.tag in ("failure", "error", "skipped") for each in case) else passed)[file] += 1
    return {
        path: (sum(passed[each] for each in files), sum(bad[each] for each in files))
        for path, files in READ_PATHS.items()
    }


def table(results: dict[str, dict[str, tuple[int, int]]]) -> list[str]:
    """The lines of the table in docs/support.md."""
    lines = [f"| | {' | '.join(results)} |", f"|---|{'--:|' * len(results)}"]
    for path in READ_PATHS:
        cells = (f"{passed} of {passed + bad}" for passed, bad in (found[path] for found in results.values()))
        lines.append(f"| {path} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
