"""The unit, its settings and its script fit the product and each other."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from controller.limits import DEFAULT_LIMITS
from tests.deploy.deployed import (
    ADMIN,
    PROGRAM,
    PROJECT,
    UNIT,
    assignments,
    check_command,
    environment_file,
    script_properties,
    unit,
    variables,
)
from tests.readme.pages import BIN, Running
from tests.summary import skip_but_under_ci
from tools.preflight import installing

pytestmark = pytest.mark.full

WRONG_COMMAND_LINE = 2
EXPOSURE_LIMIT = 20  # tenths of systemd's own points: below it stands "OK"


@pytest.fixture
def analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        skip_but_under_ci("systemd is not installed", installing("systemd"))
    return found


@pytest.fixture
def unit_of_here(tmp_path: Path) -> Path:
    """The unit, with the program where it is here."""
    there = tmp_path / UNIT.name
    there.write_text(UNIT.read_text().replace(PROGRAM, str(BIN / "strandline")))
    return there


def test_systemd_takes_the_unit_without_a_warning(analyze: str, unit_of_here: Path) -> None:
    done = subprocess.run([analyze, "verify", str(unit_of_here)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_rates_the_unit_as_little_exposed(analyze: str, unit_of_here: Path) -> None:
    command = [analyze, "security", "--offline=yes", f"--threshold={EXPOSURE_LIMIT}", str(unit_of_here)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_wrong_command_line_is_not_restarted() -> None:
    settings = unit()
    assert settings["Restart"] == ["always"]
    assert settings["RestartPreventExitStatus"] == [f"{WRONG_COMMAND_LINE}"]
    assert settings["StartLimitIntervalSec"] == ["0"]


def test_systemd_waits_longer_than_the_controller_takes_to_end() -> None:
    (given,) = unit()["TimeoutStopSec"]
    assert int(given) > DEFAULT_LIMITS.drain_s


def test_every_variable_of_unit_and_example_is_an_option() -> None:
    named = assignments(unit()["Environment"]) | environment_file(with_comments=True)
    assert named.keys() <= variables("serve")


def test_the_script_has_the_units_user_and_store() -> None:
    settings = unit()
    given = [each.split("=", 1) for each in script_properties()]
    assert [(name, value) for name, value in given if settings[name] != [value]] == []
    assert {"DynamicUser", "User", "StateDirectory", "Environment", "EnvironmentFile"} <= {name for name, _ in given}
    assert f'{PROGRAM} "$@"' in ADMIN.read_text()
    subprocess.run(["sh", "-n", ADMIN], check=True)


def test_the_units_command_serves_with_the_units_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (given,) = unit()["ExecStart"]
    program, *words = shlex.split(given)
    assert program == PROGRAM and Path(program).name in PROJECT["scripts"]
    check_command(words)
    (folder,) = unit()["WorkingDirectory"]
    for name, value in (assignments(unit()["Environment"]) | environment_file(with_comments=False)).items():
        monkeypatch.setenv(name, value.replace(folder, str(tmp_path)))
    monkeypatch.setenv("STRANDLINE_PORT", "0")
    running = Running(["strandline", *words])
    try:
        url = running.wait_for(r"https?://\S+")[0]
        assert httpx.get(f"{url}/readyz").status_code == 200
    finally:
        running.stop()
    (store,) = unit()["Environment"]
    assert (tmp_path / Path(store).name).is_file()
