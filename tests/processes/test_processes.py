"""`strandline serve --processes`: several controllers behind one port, and the parent that looks after them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from controller.cli import main
from controller.processes import check_ports, of_process, serve, with_name
from controller.settings import Settings
from controller.terminal import TAKEN_OVER_STATUS, Failure
from tests.ports import free_port
from tests.served import OwnProcess

PROCESSES = 2
PATIENCE_S = 30
STREAMS = [f"s{number}" for number in range(8)]
STREAM = {"segments": 1, "max_ahead_ms": None, "mark_interval_ms": 0}
Start = Callable[..., OwnProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as ended:

        def started(url: str, *options: str, name: str = "host") -> OwnProcess:
            parent = OwnProcess(url, "--name", name, *(options or ("--processes", str(PROCESSES))))
            ended.callback(end, parent)
            return parent

        yield started


def end(parent: OwnProcess) -> None:
    if parent.process.poll() is None:
        parent.stop()


def until(holds: Callable[[], Any]) -> Any:
    """Asks until something holds, and returns it."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if found := holds():
                return found
        time.sleep(0.02)
    raise AssertionError(f"it did not hold for {PATIENCE_S} s")


def controllers(url: str) -> dict[str, str]:
    """The address of each that serves the store, by its name."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT name, address FROM controller WHERE ended_at IS NULL ORDER BY name")
        return dict(rows.fetchall())


def children(parent: OwnProcess) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(parent.process.pid)], capture_output=True, text=True, check=False
    )
    return [int(each) for each in listed.stdout.split()]


def note_all(base: str, moment: int) -> None:
    note = {"writer": "w", "time": moment, "position": {"0": moment}}
    with httpx.Client(base_url=base) as client:
        for stream in STREAMS:
            until(partial(taken, client, stream, note))


def taken(client: httpx.Client, stream: str, note: dict[str, Any]) -> bool:
    """Whether the note was taken, now or before."""
    answer = client.post(f"/v1/streams/{stream}/notes", json=note)
    return answer.is_success or answer.json()["code"] == "time_went_back"


def has_marks(base: str, stream: str, times: list[int]) -> bool:
    answer = httpx.get(f"{base}/v1/streams/{stream}/marks")
    return answer.is_success and [mark["time"] for mark in answer.json()["marks"]] == times


def ready(base: str) -> bool:
    return httpx.get(f"{base}/readyz").is_success


def test_one_port_serves_all_streams_also_after_a_process_was_killed(postgres_url: str, start: Start) -> None:
    parent = start(postgres_url)
    for stream in STREAMS:
        assert parent.client.put(f"/v1/streams/{stream}", json=STREAM).is_success
    assert list(controllers(postgres_url)) == ["host-1", "host-2"]
    note_all(parent.url, 1)
    killed = children(parent)[0]
    os.kill(killed, signal.SIGKILL)
    until(lambda: len(children(parent)) == PROCESSES and killed not in children(parent))
    note_all(parent.url, 2)
    for stream in STREAMS:
        until(partial(has_marks, parent.url, stream, [1, 2]))
    until(lambda: list(controllers(postgres_url)) == ["host-1", "host-2"])
    until(lambda: all(map(ready, controllers(postgres_url).values())))
    assert parent.stop() == 0
    assert "process_ended controller=host-1 signal=SIGKILL" in parent.log
    assert "stopped controller=host-1" in parent.log and "stopped controller=host-2" in parent.log
    assert controllers(postgres_url) == {}


def test_processes_end_in_order_when_their_parent_is_killed(postgres_url: str, start: Start) -> None:
    parent = start(postgres_url)
    left = children(parent)
    assert len(left) == PROCESSES
    parent.kill()
    until(lambda: controllers(postgres_url) == {})
    assert parent.log.count("parent_gone") == PROCESSES


def test_a_process_whose_name_is_taken_stays_away(postgres_url: str, start: Start) -> None:
    parent = start(postgres_url)
    address = f"http://127.0.0.1:{free_port()}"
    other = start(postgres_url, "--address", address, name="host-1")
    until(lambda: len(children(parent)) == PROCESSES - 1)
    assert parent.client.get("/readyz").is_success
    assert other.client.get("/readyz").is_success
    assert parent.stop() == TAKEN_OVER_STATUS
    assert "another controller named 'host-1' began to serve" in parent.errors


def test_an_own_port_that_is_taken_ends_all_with_a_message(postgres_url: str) -> None:
    port = free_port()
    with (
        socket.create_server(("127.0.0.1", port + PROCESSES)),
        pytest.raises(AssertionError, match=f"-2: cannot listen on 127.0.0.1 port {port + PROCESSES}: Address already"),
    ):
        OwnProcess(postgres_url, "--processes", str(PROCESSES), port=port)


def test_several_processes_on_sqlite_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="one controller serves alone: several need PostgreSQL"):
        serve(Settings(database=str(tmp_path / "store.db"), processes=PROCESSES, port=0))


@pytest.mark.parametrize("number", ["0", "-1", "65", "many"])
def test_an_absurd_number_of_processes_is_refused(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--processes", number]) == 2
    assert f"'{number}' is no whole number from 1 to 64" in capsys.readouterr().err


# -- their settings ----------------------------------------------------------------------------------------------------


def settings(**more: Any) -> Settings:
    return Settings(**{"name": "host", "processes": 3, "port": 8433, **more})


def test_the_hosts_name_is_the_default() -> None:
    assert with_name(Settings(processes=2)).name == socket.gethostname()
    assert with_name(settings()).name == "host"


def test_processes_of_one_machine_reach_each_other_on_loopback() -> None:
    found = of_process(settings(), 2, 8435)
    assert (found.name, found.port, found.address) == ("host-2", 8435, "http://127.0.0.1:8435")
    assert found.client_address is None


@pytest.mark.parametrize(
    ("given", "of_the_second"),
    [
        ("http://10.0.0.1", "http://10.0.0.1:8435"),
        ("http://10.0.0.1:8433", "http://10.0.0.1:8435"),
        ("https://a.example:443/", "https://a.example:445"),
        ("http://[fd00::1]:8433", "http://[fd00::1]:8435"),
    ],
)
def test_ports_of_addresses_count_up_as_the_own_ports_do(given: str, of_the_second: str) -> None:
    found = of_process(settings(address=given, client_address=given), 2, 8435)
    assert found.address == found.client_address == of_the_second


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"port": 65_533}, "65536 is above 65535"),
        ({"address": "http://a", "client_address": "https://a"}, "both http, or https"),
        ({"address": "https://a"}, "needs --ssl-certfile"),
    ],
)
def test_ports_and_addresses_that_cannot_be_had_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Failure, match=said):
        check_ports(settings(**given))
