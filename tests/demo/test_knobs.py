"""The command line: knobs, and what is found out before anything is started."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strandline_demo.command import NEEDED, check_packages
from strandline_demo.errors import PartMissing
from strandline_demo.options import Choices, add_knobs, chosen
from strandline_demo.settings import DemoSettings

ROOT = Path(__file__).resolve().parents[2]
DEMO = "import sys; from strandline_demo import main; sys.exit(main(sys.argv[1:]))"


def choose(*arguments: str, **environment: str) -> Choices:
    parser = argparse.ArgumentParser()
    add_knobs(parser, environment)
    return chosen(parser.parse_args(arguments))


def run_demo(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The demo as a process, with its scratch folders under `folder`."""
    search = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", DEMO, *arguments],
        cwd=folder, env=os.environ | {"PYTHONPATH": search, "TMPDIR": str(folder)} | environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_without_knobs_it_is_the_world_of_the_documentation() -> None:
    choices = choose()
    assert choices.settings == DemoSettings()
    assert (choices.out, choices.port, choices.keep) == (Path("strandline-demo.png"), 8433, False)


def test_knobs_are_in_seconds_and_may_have_fractions() -> None:
    choices = choose(
        "--skew", "2.5", "--outage", "8", "--duration", "20", "--delay", "0.25", "--rate", "7", "--seed", "9"
    )
    assert choices.settings == DemoSettings(
        skew_ms=2_500, outage_ms=8_000, duration_ms=20_000, delay_ms=250, rate=7, seed=9
    )


def test_every_knob_is_an_environment_variable_too_and_the_command_line_wins() -> None:
    choices = choose(
        "--rate", "3", STRANDLINE_RATE="5", STRANDLINE_SKEW="1", STRANDLINE_PORT="0", STRANDLINE_KEEP="yes"
    )
    assert choices.settings.rate == 3
    assert choices.settings.skew_ms == 1_000
    assert choices.port == 0
    assert choices.keep


@pytest.mark.parametrize("wrong", [("--skew", "soon"), ("--port", "70000"), ("--rate", "1.5"), ("--outage", "nan")])
def test_a_value_that_is_none_is_refused_by_name(wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        choose(*wrong)
    assert wrong[0] in capsys.readouterr().err


def test_help_names_every_knob(tmp_path: Path) -> None:
    shown = run_demo(tmp_path, "--help")
    assert shown.returncode == 0
    for knob in ("rate", "skew", "outage", "duration", "delay", "seed", "out", "port", "keep"):
        assert f"--{knob}" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (("--outage", "30"), {}, "--outage cannot be 30: from 0 to 24 seconds"),
        (("--out", "nowhere/picture.png"), {}, "--out cannot be nowhere/picture.png"),
        (("--out", "."), {}, "not of a folder"),
        ((), {"JAVA_HOME": "no-java-here"}, "Spark needs Java 17"),
        ((), {"PYSPARK_PYTHON": "no-such-python"}, "set PYSPARK_PYTHON"),
    ],
)
def test_what_cannot_work_is_told_clearly_before_anything_is_started(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], words: str
) -> None:
    refused = run_demo(tmp_path, *arguments, **environment)
    assert refused.returncode in (1, 2)
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr
    assert refused.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_not_installed_is_named_with_what_to_install() -> None:
    check_packages(NEEDED)
    with pytest.raises(PartMissing, match=r"needs the package no_such_package.* install strandline\[demo\]"):
        check_packages(["json", "no_such_package"])
