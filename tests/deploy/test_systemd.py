"""The unit, its settings and its script fit the product and each other."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from controller.limits import DEFAULT_LIMITS
from controller.restarts import KILL_AFTER_S
from controller.settings import HOST_DEFAULT, PORT_DEFAULT
from controller.terminal import TAKEN_OVER_STATUS
from tests.deploy.deployed import (
    ADMIN,
    PROGRAM,
    PROJECT,
    TEMPLATE,
    UNIT,
    assignments,
    check_command,
    environment_file,
    script_properties,
    unit,
    variables,
)
from tests.ports import free_port
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


@pytest.fixture(params=[UNIT, TEMPLATE], ids=lambda unit: unit.name)
def unit_of_here(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A unit, with the program where it is here; of the template the instance for one port."""
    unit: Path = request.param
    there = tmp_path / unit.name.replace("@", f"@{PORT_DEFAULT}")
    there.write_text(unit.read_text().replace(PROGRAM, str(BIN / "strandline")))
    return there


def test_systemd_takes_the_unit_without_a_warning(analyze: str, unit_of_here: Path) -> None:
    done = subprocess.run([analyze, "verify", str(unit_of_here)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_finds_a_setting_that_is_misspelt(analyze: str, unit_of_here: Path) -> None:
    unit_of_here.write_text(unit_of_here.read_text().replace("ProtectHome=", "ProtectHouse="))
    done = subprocess.run([analyze, "verify", str(unit_of_here)], capture_output=True, text=True, check=False)
    assert "ProtectHouse" in done.stderr


def test_systemd_rates_the_unit_as_little_exposed(analyze: str, unit_of_here: Path) -> None:
    command = [analyze, "security", "--offline=yes", f"--threshold={EXPOSURE_LIMIT}", str(unit_of_here)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_wrong_command_line_and_a_takeover_are_not_restarted() -> None:
    settings = unit()
    assert settings["Restart"] == ["always"]
    assert settings["RestartPreventExitStatus"] == [f"{WRONG_COMMAND_LINE} {TAKEN_OVER_STATUS}"]
    assert settings["StartLimitIntervalSec"] == ["0"]


def test_systemd_waits_longer_than_the_controller_takes_to_end() -> None:
    (given,) = unit()["TimeoutStopSec"]
    assert int(given) > DEFAULT_LIMITS.drain_s + KILL_AFTER_S  # of several processes


def test_the_template_differs_from_the_unit_in_command_and_store_alone() -> None:
    one, several = unit(), unit(TEMPLATE.read_text())
    of_the_store = {"StateDirectory", "StateDirectoryMode", "WorkingDirectory"}
    different = {name for name in one.keys() | several.keys() if one.get(name) != several.get(name)}
    assert different == {"Description", "ExecStart", "Environment", "EnvironmentFile", *of_the_store}
    assert not of_the_store & several.keys()
    assert several["EnvironmentFile"] == [each.removeprefix("-") for each in one["EnvironmentFile"]]


def test_the_templates_command_serves_with_others(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, port = unit(TEMPLATE.read_text()), str(free_port())
    (given,) = settings["ExecStart"]
    peers = assignments(settings["Environment"])["PEER_HOST"]
    for name, value in (("%H", "host.example"), ("%i", port), ("${PEER_HOST}", peers)):
        given = given.replace(name, value)
    program, *words = shlex.split(given)
    assert program == PROGRAM and "%" not in given and "$" not in given
    monkeypatch.setenv("STRANDLINE_DATABASE", postgres_url)
    running = Running(["strandline", *words])
    try:
        url = running.wait_for(r"is ready at (https?://\S+)")[1]
        assert url == f"http://{peers}:{port}"
        assert httpx.get(f"{url}/readyz").status_code == 200
        assert f"controller=host.example-{port}" in running.said
    finally:
        running.stop()


def test_every_variable_of_unit_and_example_is_an_option() -> None:
    named = assignments(unit()["Environment"]) | environment_file(with_comments=True)
    assert named.keys() <= variables("serve")


def test_the_example_changes_no_default_by_itself() -> None:
    assert environment_file(with_comments=False) == {
        "STRANDLINE_HOST": HOST_DEFAULT,
        "STRANDLINE_PORT": str(PORT_DEFAULT),
        "STRANDLINE_LOG_FORMAT": "text",
    }


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
