"""Runs tests on the lowest versions that pyproject.toml allows: `make lowest`.

Each direct dependency of the base and of every extra, but PySpark, is installed in the version that its lower bound
names, in the environment `.lowest`; what these bring along is as new as it may be. `tools/requirements/lowest.txt`
pins all of it. A change of a bound is brought there by `make lock`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.environment import SetupError, run, say, separate

ROOT: Final = Path(__file__).resolve().parents[1]
IN_FILE: Final = ROOT / "tools" / "requirements" / "lowest.in"
# What runs the tests, in the versions that they run with otherwise.
RUNNING: Final = ("editables", "hatchling", "hypothesis", "packaging", "pytest", "pytest-timeout", "pytest-xdist")
# They need no Maven, no Java and no browser: confluent-kafka and Jinja2 are installed, and not run.
TESTS: Final = (
    "tests/wire",
    "tests/client",
    "tests/chain",
    "tests/window",
    "tests/logs/test_sqlite.py",
    "tests/logs/test_sqlite_contract.py",
    "tests/logs/test_deliveries.py",
    "tests/storage",
    "tests/migrations/test_schema.py",
    "tests/controller/test_notes.py",
    "tests/controller/test_server.py",
    "tests/controller/test_answers.py",
    "tests/commands/test_transcripts.py::test_commands_print_what_the_transcript_has[showing]",
    "tests/demo/test_outcome.py",
)
INTRODUCTION: Final = """\
# The lowest versions that pyproject.toml allows, and what runs tests on them: `make lock` writes this file.
-c build.txt
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write tools/requirements/lowest.in, and run nothing")
    if parser.parse_args().write:
        IN_FILE.write_text(lowest_in(ROOT))
        return 0
    try:
        with separate("lowest") as python:
            install = ("-I", "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--editable", ROOT)
            run("installing strandline", python, *install)
    except (SetupError, OSError) as error:
        print(f"strandline: {error}", file=sys.stderr)
        return 1
    say("strandline: testing on the lowest versions")
    command = (python, "-m", "pytest", "--numprocesses", os.environ.get("PROCESSES", "3"), "--dist", "loadfile", *TESTS)
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def lowest_in(root: Path) -> str:
    """The lower bounds of all direct dependencies as versions, and the tools at the versions that are pinned."""
    text = "".join((root / "tools" / "requirements" / f"{name}.txt").read_text() for name in ("build", "dev"))
    pins = dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", text, re.MULTILINE))
    return INTRODUCTION + "\n".join([*sorted(set(lowest(root))), *(f"{name}=={pins[name]}" for name in RUNNING), ""])


def lowest(root: Path) -> Iterator[str]:
    """Every direct dependency at its lower bound. Raises SetupError for one that has none."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    for requirement in [*project["dependencies"], *(each for extra in extras for each in extra)]:
        if requirement.startswith(("strandline[", "pyspark")):  # `make versions` tests that one
            continue
        found = re.fullmatch(r"([\w.\[\]-]+)>=([\w.]+)(?:,<[\w.]+)?(?:;.*)?", requirement)
        if found is None:
            raise SetupError(
                f"pyproject.toml has {requirement!r}: write it as name>=version, so that it has a lower bound"
            )
        yield f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    sys.exit(main())
