"""The wheel, as it is built for others, holds the packages and works."""

import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

NEEDS_MORE_THAN_PYTHON = {"strandline.chain", "strandline.protocol.transport", "strandline.testing."}

IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import strandline
assert strandline.__file__.startswith(sys.argv[1]), strandline.__file__
for module in pkgutil.walk_packages(strandline.__path__, "strandline."):
    if not module.name.startswith(tuple(sys.argv[2:])):
        importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built now from what is here."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """The names of the files in the wheel."""
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_holds_the_packages_and_nothing_else(
    names: set[str], packages: list[str], pyproject: dict[str, Any]
) -> None:
    description = f"strandline-{pyproject['project']['version']}.dist-info"
    assert {name.split("/")[0] for name in names} == {*packages, description}
    assert f"{description}/licenses/LICENSE" in names


def test_the_packages_are_all_that_the_project_has(packages: list[str], project_files: list[Path], root: Path) -> None:
    assert {str(file.parent.relative_to(root)) for file in project_files if file.name == "py.typed"} == set(packages)


def test_every_module_of_the_packages_is_in_the_wheel(names: set[str], product_files: list[Path], root: Path) -> None:
    ours = {str(file.relative_to(root)) for file in product_files}
    assert {name for name in names if name.endswith(".py")} == ours


def test_every_package_ships_its_types(names: set[str], packages: list[str]) -> None:
    assert {f"{package}/py.typed" for package in packages} <= names


def test_strandline_from_the_wheel_needs_nothing_but_python(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    # -S leaves out what is installed, the editable install of this very project included.
    command = [sys.executable, "-I", "-S", "-c", IMPORT_ALL, str(tmp_path), *NEEDS_MORE_THAN_PYTHON]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_description_says_what_a_writer_gets(wheel: Path, pyproject: dict[str, Any]) -> None:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(opened.read(name).decode())
    required = metadata.get_all("Requires-Dist", [])
    assert [each for each in required if "extra ==" not in each] == pyproject["project"]["dependencies"]
    assert metadata["Version"] == pyproject["project"]["version"]
    assert set(metadata.get_all("Provides-Extra", [])) == set(pyproject["project"]["optional-dependencies"])


def test_the_installed_project_is_this_one(root: Path, tmp_path: Path) -> None:
    # From another folder, so that a missing install shows.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", "import strandline; print(strandline.__file__)"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(root / "strandline" / "__init__.py"), done.stderr
