"""The public names: found by programs, `dir`, `help`, `from … import *` and type checkers."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.website import public_names

PACKAGES = ["reader_client", "spark_integration", "strandline.testing", "writer_client"]
A_USER_NEEDS = """
    AsyncWriter BackgroundWriter Event EventReader EventWindows KafkaLog ReaderGroup ReaderState Session Sliding
    SqliteLog SqliteLogReader TimeWindows Tumbling Writer attach exact_watermark map_async prepare read_between
    read_events
"""


def run(script: str, root: Path) -> str:
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_a_package_offers_is_there_and_is_seen(package: str, root: Path) -> None:
    module, names = importlib.import_module(package), public_names(root, package)
    assert len(names) == len(set(names)) > 5
    assert {name for name in names if name not in dir(module)} == set()
    assert [name for name in names if getattr(getattr(module, name), "__name__", name) != name] == []
    assert set(names) == set(module.__all__)


def test_strandline_has_the_names_of_its_packages_and_they_are_the_same_things(root: Path) -> None:
    strandline: Any = importlib.import_module("strandline")
    for package in ("reader_client", "spark_integration", "writer_client"):
        module = importlib.import_module(package)
        assert [name for name in module.__all__ if getattr(strandline, name) is not getattr(module, name)] == []
    assert set(A_USER_NEEDS.split()) <= set(dir(strandline))
    assert strandline.__version__ == importlib.import_module("strandline.version").__version__


def test_importing_strandline_loads_nothing_that_a_writer_does_not_need(root: Path) -> None:
    heavy = {"httpx", "numpy", "pyspark", "pyarrow", "sqlalchemy", "fastapi"}
    assert run(f"import sys, strandline; dir(strandline); print({heavy} & set(sys.modules))", root) == "set()"
    more = {"asyncio", "msgspec", "reader_client", "writer_client"} | heavy
    assert run(f"import sys, strandline; print({more} & set(sys.modules))", root) == "set()"
    unwanted = {"reader_client", "spark_integration", "pyspark", "pyarrow", "sqlalchemy", "fastapi"}
    assert run(f"import sys; from strandline import Writer; print({unwanted} & set(sys.modules))", root) == "set()"


@pytest.mark.parametrize(
    ("line", "package", "extra"),
    [
        ("from strandline import read_events", "pyspark", "spark"),
        ("import spark_integration", "pyspark", "spark"),
        ("from strandline import KafkaLog", "confluent_kafka", "kafka"),
    ],
)
def test_an_extra_that_is_missing_is_named_with_its_command(line: str, package: str, extra: str, root: Path) -> None:
    said = run(f"import sys; sys.modules[{package!r}] = None\n{line}", root)
    assert said.endswith(f"needs {package}, which is not installed: pip install '.[{extra}]' in a clone of Strandline")


def test_a_star_imports_what_works_with_what_is_installed(root: Path) -> None:
    script = "import sys; sys.modules.update(pyspark=None, confluent_kafka=None)\nfrom strandline import *\n"
    shown = run(f"{script}print([each in globals() for each in ('Writer', 'SqliteLog', 'attach', 'KafkaLog')])", root)
    assert shown == "[True, True, False, False]"


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    strandline: Any = importlib.import_module("strandline")
    with pytest.raises(AttributeError, match="module 'strandline' has no attribute 'Writter'"):
        strandline.Writter  # noqa: B018  # that is the point


@pytest.mark.full  # mypy begins without a cache
def test_a_type_checker_sees_the_names_and_refuses_others(root: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from strandline import Tumbling, Writer, read_events\nreveal_type(Tumbling(10).size_ms)\n")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from strandline import Writter\n")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), str(program), str(wrong)]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
    assert 'Revealed type is "int"' in said or 'Revealed type is "builtins.int"' in said
    assert 'has no attribute "Writter"' in said and said.count("error:") == 1, said
