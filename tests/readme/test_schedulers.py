"""The page about jobs that run when an hour is complete: what schedulers do, as far as it can be done without them."""

from __future__ import annotations

import ast
import json
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
import yaml

from tests.readme.pages import Stranger, blocks_of
from tests.served import OwnProcess

PAGE = "docs/how-to/run-when-complete.md"
ONE_O_CLOCK = datetime(2026, 1, 1, 13, tzinfo=UTC)


class Airflow(ThreadingHTTPServer):
    """A server in the place of Airflow's that keeps what was posted."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Posted)


class _Posted(BaseHTTPRequestHandler):
    def do_POST(self) -> None:  # the name that Python's server calls
        assert isinstance(self.server, Airflow)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, json.loads(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def airflow() -> Iterator[Airflow]:
    with Airflow() as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory, airflow: Airflow) -> Iterator[Stranger]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "models").mkdir()
    process = OwnProcess(folder / "store.db")
    there = {"airflow.example:8080": f"127.0.0.1:{airflow.server_port}"}
    with Stranger(folder, controller=process.url, replaced=there) as stranger:
        stranger.walk(PAGE)
        yield stranger
    process.stop()


def test_the_page_can_be_done_and_posts_the_hour_to_airflow_once(stranger: Stranger, airflow: Airflow) -> None:
    assert airflow.posted == [("/api/v2/assets/events", {"asset_id": 1, "partition_key": "2026-01-01T12:00:00"})]


def test_every_file_of_the_page_is_well_formed(stranger: Stranger) -> None:
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
        "partitioned_report_dag.py",
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
