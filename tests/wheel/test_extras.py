"""The wheel with one extra, and no package that comes with another, does what the extra is for."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution, files
from pathlib import Path

import pytest

from tests.packages import brought_by
from tools.try_wheel import PROGRAMS, ROOT, USERS_OWN, built

pytestmark = pytest.mark.full

# Run in a Python without what is installed (-S): it finds a user's own modules first, then packages in two folders.
PREFIX = "import os, sys; sys.path[:0] = [os.getcwd(), sys.argv.pop(1), sys.argv.pop(1)]\n"
SERVE = "from controller.cli import main; sys.exit(main(['serve', '--port', '0']))"
LONG_TO_LOAD = {"spark", "demo"}  # tools/try_wheel.py tries them as well


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def installed(wheel: Path, extra: str, folder: Path) -> list[str]:
    """How a Python begins that has the wheel, what comes with an extra, and a user's own modules in its folder."""
    ours, theirs = folder / "ours", folder / "theirs"
    for name in USERS_OWN:
        (folder / f"{name}.py").write_text("raise SystemExit('this is a module of the user')\n")
    zipfile.ZipFile(wheel).extractall(ours)
    theirs.mkdir()
    for name in brought_by(extra):
        for top in {Path(str(file)).parts[0] for file in files(name) or []} - {"..", "__pycache__"}:
            if not (theirs / top).exists():  # some packages share a namespace
                (theirs / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    return [sys.executable, "-I", "-S", "-c", PREFIX + "{}", str(ours), str(theirs)]


def with_program(command: list[str], program: str) -> list[str]:
    return [word.replace("{}", program) if word.startswith(PREFIX) else word for word in command]


def test_there_is_a_program_for_the_base_and_for_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(PROGRAMS) == {"base", *project["optional-dependencies"]}


@pytest.mark.parametrize("extra", sorted(PROGRAMS.keys() - LONG_TO_LOAD - {"base"}))  # test_wheel.py has the base
def test_an_extra_brings_all_that_it_is_for(extra: str, wheel: Path, tmp_path: Path) -> None:
    command = with_program(installed(wheel, extra, tmp_path), PROGRAMS[extra])
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", ["controller", "dashboard"])
def test_a_controller_is_served_with_its_extra_alone(extra: str, wheel: Path, tmp_path: Path) -> None:
    command = with_program(installed(wheel, extra, tmp_path), SERVE)
    served = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert served.stdout is not None
    try:
        assert served.stdout.readline().startswith("strandline is ready at http://127.0.0.1:")
    finally:
        served.terminate()
        served.communicate()
    assert served.returncode == 0


def test_the_source_distribution_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """Built where nothing else of the checkout is."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (packed,) = tmp_path.glob("*.tar.gz")
    subprocess.run(["tar", "-xf", packed, "-C", tmp_path], check=True)  # the tarfile of 3.11.2 lacks filters
    again = tmp_path / packed.name.removesuffix(".tar.gz")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=again, check=True, capture_output=True)
    (rebuilt,) = tmp_path.glob("*.whl")
    assert contents(rebuilt) == contents(wheel)
