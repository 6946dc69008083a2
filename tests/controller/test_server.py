"""`strandline serve` as a process: how it starts, what it refuses, how it ends."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.server import address
from controller.storage.schema import REVISION
from tests.served import run_command

CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_command(*arguments, environment={"PATH": "", **environment})


def test_a_second_ctrl_c_leaves_the_store_in_order_as_well(serve: Any) -> None:
    server = serve()
    assert server.stop(signal.SIGINT, signal.SIGINT) == 130 and server.errors == ""


def test_time_alone_lets_a_silent_writer_go(serve: Any) -> None:
    server = serve()
    server.client.put("/v1/streams/s", json={**CONFIG, "writer_timeout_ms": 200})
    for writer, noted in (("silent", 1), ("other", 2)):
        server.client.post("/v1/streams/s/notes", json={"writer": writer, "time": noted, "position": {}})

    page = server.client.get("/v1/streams/s/marks", params={"after": 1, "wait_ms": 30_000}).json()

    assert [mark["time"] for mark in page["marks"]] == [2] and "silent" in page["marks"][0]["excluded"]


@pytest.mark.parametrize(
    ("host", "tls", "url"),
    [
        ("127.0.0.1", False, "http://127.0.0.1:8433"),
        ("10.1.2.3", True, "https://10.1.2.3:8433"),
        ("::1", False, "http://[::1]:8433"),
        ("0.0.0.0", False, "http://127.0.0.1:8433"),
        ("::", True, "https://[::1]:8433"),
    ],
)
def test_it_says_where_it_is_to_be_found(host: str, tls: bool, url: str) -> None:
    found, others = address(host, 8433, tls=tls)
    assert (found, "every other address" in others) == (url, host in ("0.0.0.0", "::"))


def test_a_taken_port_is_named(serve: Any, tmp_path: Path) -> None:
    port = httpx.URL(serve().url).port

    ended = run("serve", "--database", str(tmp_path / "other.db"), "--port", str(port))

    assert ended.returncode == 1 and f"port {port}" in ended.stderr and "Traceback" not in ended.stderr


def test_options_are_environment_variables_too_and_migrating_says_what_it_did(tmp_path: Path) -> None:
    path = str(tmp_path / "named.db")

    assert f"went from nothing to {REVISION}" in run("migrate", STRANDLINE_DATABASE=path).stdout
    assert f"is at {REVISION} already" in run("migrate", "--database", path).stdout
    assert "STRANDLINE_PORT" in run("serve", "--help").stdout
    bad = run("serve", STRANDLINE_PORT="http", STRANDLINE_DATABASE=path)
    assert bad.returncode == 2 and "'http' is not a valid integer" in bad.stderr
