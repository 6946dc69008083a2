"""The core is pure, and a client loads nothing of the server.

The linter's contracts (pyproject.toml, import-linter) hold who may import whom; here is what they cannot say.
"""

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

# Each module that may import something from outside, and what.
ALLOWED_OUTSIDE = {
    "strandline.client.over_httpx": {"httpx"},
    **{
        f"strandline.wire.{name}": {"msgspec"}
        for name in (
            *("controllers", "groups", "journal", "operations"),
            *("shapes", "status", "streams"),
        )
    },
}
# Clocks, randomness, logging, files, processes, threads and the net, by the module of the standard library.
IMPURE = {
    *("time", "random", "secrets", "uuid", "logging", "warnings", "os", "pathlib", "shutil", "tempfile", "io"),
    *("subprocess", "multiprocessing", "threading", "concurrent", "asyncio", "selectors", "signal"),
    *("socket", "ssl", "http", "urllib", "sqlite3"),
}
MAY_BE_IMPURE = {f"strandline.client.{name}" for name in ("http", "over_httpx", "credentials")} | {
    "strandline.fork",
    "strandline.paced_log",  # what clients log
    "strandline.wire.shapes",
}
PURE_PARTS = {"urllib.parse"}  # of a package that is otherwise impure

LOADED = "import json, sys; import {}; print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"


def module_name(file: Path, root: Path) -> str:
    """The name by which a file is imported."""
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tops(modules: set[str]) -> set[str]:
    """The top-level packages of these modules."""
    return {module.split(".")[0] for module in modules}


def imported(node: ast.AST, *, names: bool = False) -> Iterator[str]:
    """The modules that a module imports when it runs: what only type checkers see is left out. With `names` also what
    it imports from them, which may be modules."""
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom(level=0, module=str(module)):
            yield module
            if names:
                yield from (f"{module}.{alias.name}" for alias in node.names)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            for other in node.orelse:
                yield from imported(other, names=names)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from imported(child, names=names)


@pytest.fixture(scope="module")
def core(product_files: list[Path], root: Path) -> dict[str, set[str]]:
    """What each module of `strandline` imports, but for logs (files and brokers), the demo, and what is for
    users' tests."""
    return {
        name: set(imported(ast.parse(file.read_text())))
        for file in product_files
        if (name := module_name(file, root)).split(".")[0] == "strandline"
        and not name.startswith(("strandline_demo", "strandline.logs", "strandline.testing"))
    }


def test_no_modules_import_one_another(product_files: list[Path], root: Path) -> None:
    found = {module_name(file, root): set(imported(ast.parse(file.read_text()), names=True)) for file in product_files}
    # A package that names what it offers imports its modules; they import one another, not it.
    graph = {name: imports & found.keys() - {name, name.partition(".")[0]} for name, imports in found.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle


def test_the_core_imports_the_standard_library_only(core: dict[str, set[str]]) -> None:
    outside = {
        name: tops(found) - sys.stdlib_module_names - {"strandline"} - ALLOWED_OUTSIDE.get(name, set())
        for name, found in core.items()
    }
    assert {name: found for name, found in outside.items() if found} == {}


def test_the_core_has_no_clock_no_randomness_and_no_input_or_output(core: dict[str, set[str]]) -> None:
    found = {name: tops(names - PURE_PARTS) & IMPURE for name, names in core.items() if name not in MAY_BE_IMPURE}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("package", "unwanted"),
    [
        ("strandline", {"numpy", "httpx", "asyncio", "sqlite3", "socket", "controller"}),
        ("strandline.client.http", {"numpy", "httpx", "asyncio", "sqlite3", "controller"}),
        ("strandline.testing", {"numpy", "httpx", "pyarrow", "fastapi", "sqlalchemy", "controller"}),
        ("strandline.logs", {"numpy", "pyarrow", "pyspark", "httpx", "controller", "reader_client", "writer_client"}),
        ("writer_client", {"numpy", "pyarrow", "pyspark", "fastapi", "sqlalchemy", "controller", "reader_client"}),
        ("reader_client", {"pyspark", "fastapi", "sqlalchemy", "controller", "writer_client"}),
        ("spark_integration", {"fastapi", "sqlalchemy", "controller"}),
    ],
)
def test_importing_a_package_loads_nothing_that_is_not_its_own(
    package: str, unwanted: set[str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", LOADED.format(package)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert package.split(".")[0] in loaded
    assert loaded & unwanted == set()


@pytest.mark.parametrize("package", ["reader_client", "spark_integration", "strandline.testing", "writer_client"])
def test_no_module_has_the_name_of_something_public_of_its_package(package: str, root: Path) -> None:
    """Importing the module would put it in the place of the public name."""
    modules = {file.stem for file in (root / package.replace(".", "/")).glob("*.py")}
    assert modules & set(importlib.import_module(package).__all__) == set()
