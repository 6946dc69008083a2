"""`strandline serve --processes`: several controllers behind one port, and the parent that looks after them.

Those that most tests share reach each other over TLS.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from controller.cli import main
from controller.commit.store import LOADS_AT_ONCE
from controller.processes import check_ports, of_process, serve, with_name
from controller.settings import Settings
from controller.terminal import TAKEN_OVER_STATUS, Failure
from tests.ports import free_port
from tests.postgres import Postgres
from tests.readme.pages import ROOT
from tests.served import OwnProcess
from tests.tokens.test_serving import openssl

pytestmark = pytest.mark.full

PROCESSES = 2
PATIENCE_S = 60
STREAMS = [f"s{number}" for number in range(8)]
PAGE = "docs/how-to/several-controllers.md"
SESSIONS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
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


@dataclass
class Served:
    """Processes that serve a store, and who trusts their certificate."""

    parent: OwnProcess
    url: str
    trusted: ssl.SSLContext

    @property
    def addresses(self) -> list[str]:
        return list(controllers(self.url).values())

    def ask(self, address: str, method: str, path: str, body: Any = None) -> httpx.Response:
        """Asks the one controller at this address."""
        return httpx.request(method, f"{address}{path}", json=body, verify=self.trusted, timeout=PATIENCE_S)

    def note(self, stream: str, moment: int) -> bool:
        """Whether the note was taken, now or before."""
        note = {"writer": "w", "time": moment, "position": {"0": moment}}
        answer = self.parent.client.post(f"/v1/streams/{stream}/notes", json=note)
        return answer.is_success or answer.json()["code"] == "time_went_back"

    def has_marks(self, stream: str, times: list[int]) -> bool:
        answer = self.parent.client.get(f"/v1/streams/{stream}/marks")
        return answer.is_success and [mark["time"] for mark in answer.json()["marks"]] == times


@pytest.fixture(scope="module")
def served(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("certificate")
    certificate, key = str(folder / "server.pem"), str(folder / "server.key")
    made = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    named = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    openssl(*made, *named, "-out", certificate, "-keyout", key)
    url, trusted = postgres.new_database(), ssl.create_default_context(cafile=certificate)
    several = ("--processes", str(PROCESSES), "--name", "host", "--address", "https://127.0.0.1")
    tls = ("--ssl-certfile", certificate, "--ssl-keyfile", key, "--peer-ca-file", certificate)
    parent = OwnProcess(url, *several, *tls, trusted=trusted)
    yield Served(parent, url, trusted)
    assert parent.stop() == 0
    assert "stopped controller=host-1" in parent.log and "stopped controller=host-2" in parent.log
    assert controllers(url) == {}
    postgres.give_back(url)


def test_each_has_a_name_an_address_and_as_many_connections_as_the_page_says(served: Served) -> None:
    found = controllers(served.url)
    assert list(found) == ["host-1", "host-2"]
    assert all(address.startswith("https://127.0.0.1:") for address in found.values())
    assert served.parent.url not in found.values()
    text = (ROOT / PAGE).read_text()
    (at_rest, more) = map(int, re.findall(r"has (?:up to )?(\d+) (?:connections|more)", text))
    assert more == LOADS_AT_ONCE and f"{at_rest + more} for each controller" in text
    with psycopg.connect(served.url) as connection:
        assert connection.execute(SESSIONS).fetchone() == (PROCESSES * at_rest,)


def test_calls_are_passed_on_to_a_controller_with_a_trusted_certificate(served: Served) -> None:
    answers = [served.ask(address, "PUT", "/v1/streams/one", STREAM) for address in served.addresses]
    assert sorted(answer.status_code for answer in answers) == [200, 201]


def test_a_process_that_was_killed_is_replaced_and_all_streams_go_on(served: Served) -> None:
    for stream in STREAMS:
        assert served.parent.client.put(f"/v1/streams/{stream}", json=STREAM).is_success
        assert served.note(stream, 1)
    killed = children(served.parent)[0]
    os.kill(killed, signal.SIGKILL)
    until(lambda: len(children(served.parent)) == PROCESSES and killed not in children(served.parent))
    for stream in STREAMS:
        until(partial(served.note, stream, 2))
        until(partial(served.has_marks, stream, [1, 2]))
    until(lambda: list(controllers(served.url)) == ["host-1", "host-2"])
    until(lambda: all(served.ask(address, "GET", "/readyz").is_success for address in served.addresses))


def test_processes_end_in_order_when_their_parent_is_killed(postgres_url: str, start: Start) -> None:
    parent = start(postgres_url)
    left = children(parent)
    assert len(left) == PROCESSES
    parent.kill()
    until(lambda: controllers(postgres_url) == {})
    assert parent.log.count("parent_gone") == PROCESSES


def test_a_process_that_is_drained_stays_away_and_the_others_serve(postgres_url: str, start: Start) -> None:
    parent = start(postgres_url)
    assert parent.client.post("/v1/controllers/host-1/drain", timeout=60).is_success
    until(lambda: list(controllers(postgres_url)) == ["host-2"])
    until(lambda: len(children(parent)) == PROCESSES - 1)
    until(lambda: parent.client.get("/readyz").is_success)
    assert parent.stop(signal.SIGINT) == 130
    assert parent.log.count("process_started") == PROCESSES
    assert "process_ended controller=host-1 status=0" in parent.log


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
    with pytest.raises(Failure, match=said) as refused:
        check_ports(settings(**given))
    assert refused.value.status == 2
