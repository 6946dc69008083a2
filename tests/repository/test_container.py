"""What of the container file can be checked without a container engine."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from controller.app import create_app
from controller.settings import PORT_DEFAULT, Settings

pytestmark = pytest.mark.full

PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+) \\$", re.MULTILINE)


@pytest.fixture(scope="module")
def instructions(root: Path) -> list[tuple[str, str]]:
    """The instructions with what follows them; lines that end with a backslash are joined."""
    text = (root / "deploy" / "container" / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def those(instructions: list[tuple[str, str]], name: str) -> list[str]:
    return [rest for each, rest in instructions if each == name]


@pytest.fixture(scope="module")
def copied(instructions: list[tuple[str, str]]) -> list[str]:
    """What it copies from the project."""
    sources = [rest.split()[:-1] for rest in those(instructions, "COPY") if not rest.startswith("--from")]
    return [source for each in sources for source in each]


def test_hadolint_has_nothing_against_it(root: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    command: list[str | Path] = [hadolint, "--no-color", "--failure-threshold", "style"]
    command.append(root / "deploy" / "container" / "Containerfile")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_that_it_copies_is_there_and_is_let_through(copied: list[str], root: Path) -> None:
    assert [source for source in copied if not (root / source).exists()] == []
    ignored = (root / ".dockerignore").read_text().splitlines()
    assert sorted(line[1:] for line in ignored if line.startswith("!")) == sorted(copied)


def test_it_copies_every_folder_that_the_wheel_has(copied: list[str], packages: list[str]) -> None:
    assert set(packages) <= set(copied)


def test_nobody_is_root_in_it_and_the_store_is_on_a_volume(instructions: list[tuple[str, str]]) -> None:
    assert [name for name, _ in instructions][-7:] == [
        *("USER", "WORKDIR", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD")
    ]
    (made,) = [rest for rest in those(instructions, "RUN") if rest.startswith("useradd")]
    (user,) = those(instructions, "USER")
    assert int(user) > 0 and f"--uid {user} " in made  # a number, so that Kubernetes can tell that it is not root's
    variables = dict(word.split("=", 1) for word in shlex.split(those(instructions, "ENV")[0]))
    (volume,) = those(instructions, "VOLUME")
    assert variables["STRANDLINE_DATABASE"].startswith(f"sqlite:///{volume}/")
    assert those(instructions, "EXPOSE") == [str(PORT_DEFAULT)]


def test_it_asks_for_its_health_where_the_application_answers(instructions: list[tuple[str, str]]) -> None:
    (check,) = those(instructions, "HEALTHCHECK")
    found = re.search(rf"127\.0\.0\.1:{PORT_DEFAULT}(/\w+)", check)
    assert found is not None
    assert found[1] in create_app(Settings()).openapi()["paths"]


def test_the_containers_command_and_variables_are_known(
    instructions: list[tuple[str, str]], pyproject: dict[str, Any]
) -> None:
    assert those(instructions, "ENTRYPOINT") == ['["strandline"]']
    assert "strandline" in pyproject["project"]["scripts"]
    assert those(instructions, "CMD") == ['["serve"]']
    done = subprocess.run(
        [sys.executable, "-m", "controller", "serve", "--help"], capture_output=True, text=True, check=True
    )
    variables = re.findall(r"STRANDLINE_\w+(?==)", those(instructions, "ENV")[0])
    assert variables
    assert [name for name in variables if name not in done.stdout] == []


def test_the_containers_pins_are_tested_and_sufficient(root: Path, pyproject: dict[str, Any]) -> None:
    text = (root / "deploy" / "container" / "requirements.txt").read_text()
    pins, tested = dict(PIN.findall(text)), dict(PIN.findall((root / "tools" / "requirements" / "dev.txt").read_text()))
    assert {name: version for name, version in pins.items() if tested.get(name) != version} == {}
    assert len(re.findall(r"--hash=sha256:", text)) > len(pins)
    extras = pyproject["project"]["optional-dependencies"]
    named = [
        *pyproject["project"]["dependencies"],
        *(each for name in ("controller", "dashboard", "postgres") for each in extras[name]),
    ]
    needs = [each for each in map(Requirement, named) if each.name != "strandline"]
    assert [
        str(each) for each in needs if each.name not in pins or Version(pins[each.name]) not in each.specifier
    ] == []
    assert {"pyspark", "pytest", "confluent-kafka"} & set(pins) == set()
