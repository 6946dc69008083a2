"""Jars come once, by Maven; where they cannot be had the tests say so and are skipped, and fail in CI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

MAVEN = """#!/bin/sh
echo run >> "{calls}"
for each in "$@"; do case "$each" in -DoutputDirectory=*) folder="${{each#*=}}" ;; esac; done
mkdir -p "$folder" && touch "$folder/one.jar"
"""
NO_MAVEN_CENTRAL = """#!/bin/sh
echo '[ERROR] Could not transfer an artifact: Name or service not known'
echo '[ERROR] Re-run Maven'
exit 1
"""


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """A checkout with no jars, and no programs but those that a test puts into its folder bin."""
    shutil.copytree(root / "tools", tmp_path / "tools")
    (tmp_path / "bin").mkdir()
    for program in ("sh", "mkdir", "touch"):
        found = shutil.which(program)
        assert found
        (tmp_path / "bin" / program).symlink_to(found)
    return tmp_path


def maven(checkout: Path, text: str) -> None:
    script = checkout / "bin" / "mvn"
    script.write_text(text)
    script.chmod(0o755)


def jars(checkout: Path, *profiles: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(checkout / "tools" / "jars.py"), *profiles]
    return subprocess.run(command, env={"PATH": str(checkout / "bin")}, capture_output=True, text=True, check=False)


def test_jars_are_fetched_once_until_their_coordinates_change(checkout: Path) -> None:
    calls = checkout / "calls"
    maven(checkout, MAVEN.format(calls=calls))
    for _ in range(2):
        done = jars(checkout, "kafka")
        assert (done.returncode, done.stdout) == (0, f"{checkout / '.jars' / 'kafka'}\n"), done.stderr
    assert calls.read_text() == "run\n"
    with (checkout / "tools" / "pom.xml").open("a") as pom:
        pom.write("<!-- another version -->\n")
    assert jars(checkout).returncode == 0
    assert calls.read_text() == "run\n" * 3  # for both folders


@pytest.mark.parametrize(
    ("program", "told"),
    [(None, "apt-get install -y maven"), (NO_MAVEN_CENTRAL, "Name or service not known")],
    ids=["without Maven", "without Maven Central"],
)
def test_what_is_missing_is_told(checkout: Path, program: str | None, told: str) -> None:
    if program is not None:
        maven(checkout, program)
    done = jars(checkout)
    assert done.returncode == 1
    assert told in done.stderr
    assert not (checkout / ".jars" / "kafka.stamp").exists()


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_tests_without_jars_are_skipped_and_fail_in_ci(root: Path, checkout: Path, ci: str, outcome: str) -> None:
    maven(checkout, NO_MAVEN_CENTRAL)
    (checkout / "tests").mkdir()
    for helper in (root / "tests").glob("*.py"):
        shutil.copy(helper, checkout / "tests")
    (checkout / "tests" / "test_it.py").write_text("def test_it(kafka): raise AssertionError\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "tests/test_it.py"],
        cwd=checkout,
        env={**os.environ, "PATH": str(checkout / "bin"), "PYTHONPATH": f"{checkout}{os.pathsep}{root}", "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in done.stdout, done.stdout + done.stderr
    assert "Name or service not known" in done.stdout
