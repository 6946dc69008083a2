"""What the house rules are about: the files of the project, and its own description."""

import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {"__pycache__", "build", "dist", "node_modules", "spark-warehouse"}


def files_that_git_knows() -> list[Path] | None:
    """What is in the checkout and not ignored, or None where this is no checkout (a source distribution)."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        output = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return [ROOT / name for name in output.decode().split("\0") if name]


def files_that_are_there() -> list[Path]:
    """Every file outside folders that tools made."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_OURS and not name.startswith(".")]
        found += [Path(folder, name) for name in files]
    return found


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the project."""
    return ROOT


@pytest.fixture(scope="session")
def project_files() -> list[Path]:
    """Every file that belongs to the project."""
    known = files_that_git_knows()
    found = sorted(file for file in (files_that_are_there() if known is None else known) if file.is_file())
    assert ROOT / "pyproject.toml" in found
    return found


@pytest.fixture(scope="session")
def pyproject() -> dict[str, Any]:
    """The project's description of itself."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="session")
def packages(pyproject: dict[str, Any]) -> list[str]:
    """The packages that the project ships."""
    names: list[str] = pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    return names


@pytest.fixture(scope="session")
def python_files(project_files: list[Path]) -> list[Path]:
    """Every Python file of the project, tests and tools included."""
    return [file for file in project_files if file.suffix == ".py"]


@pytest.fixture(scope="session")
def product_files(python_files: list[Path], packages: list[str]) -> list[Path]:
    """Every Python file that the project ships."""
    return [file for file in python_files if file.relative_to(ROOT).parts[0] in packages]
