"""The page about jobs that run when an hour is complete: what schedulers do, as far as it can be done without them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import yaml

from tests.readme.pages import Stranger, blocks_of
from tests.served import OwnProcess

PAGE = "docs/how-to/run-when-complete.md"
ONE_O_CLOCK = datetime(2026, 1, 1, 13, tzinfo=UTC)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "models").mkdir()
    process = OwnProcess(folder / "store.db")
    with Stranger(folder, controller=process.url) as stranger:
        stranger.walk(PAGE)
        yield stranger
    process.stop()


def test_the_page_can_be_done_and_every_file_of_it_is_well_formed(stranger: Stranger) -> None:
    checked = set()
    for path in sorted(stranger.folder.rglob("*")):
        match path.suffix:
            case ".py":
                ast.parse(path.read_text())
            case ".yml":
                (model,) = yaml.safe_load(path.read_text())["models"]
                assert model["config"]["incremental_strategy"] == "microbatch"
            case ".sh":
                subprocess.run(["bash", "-n", path], check=True)
            case _:
                continue
        checked.add(path.name)
    assert checked == {
        "report_dag.py",
        "report_sensor_dag.py",
        "report_sensor.py",
        "hourly_report.yml",
        "hourly-report.sh",
    }


def test_airflows_sensor_is_done_when_the_hour_is_complete(stranger: Stranger) -> None:
    (source,) = [each.text for each in blocks_of(PAGE) if each.file == "report_sensor_dag.py"]
    (function,) = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef)]
    function.decorator_list.clear()
    names: dict[str, Any] = {"httpx": httpx, "ORDERS": f"{stranger.controller}/v1/streams/orders"}
    exec(compile(ast.Module([function], []), PAGE, "exec"), names)
    assert names["complete"](ONE_O_CLOCK) is True
    assert names["complete"](ONE_O_CLOCK.replace(hour=14)) is False
