"""Controllers of two versions serve one store while they are replaced one by one, under load."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from controller.cli import main
from controller.storage.database import open_database
from tests.migrations import later_version
from tests.migrations.later_version import ADDS, REMOVES, run
from tests.ports import free_ports
from tests.postgres import Postgres
from tests.readme.pages import blocks_of, commands_of
from tests.served import ROOT, OwnProcess

STREAMS = [f"s{number}" for number in range(4)]
CONFIG = {"segments": 1, "max_ahead_ms": None, "mark_interval_ms": 0}
PATIENCE_S = 60
PAGE = 1_000


class Members:
    """Controllers by name. Each has an address that it keeps, whichever version serves there."""

    def __init__(self, url: str, names: list[str]) -> None:
        self._url = url
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.addresses = [f"http://127.0.0.1:{port}" for port in self._ports.values()]
        self.processes: dict[str, OwnProcess] = {}

    def start(self, name: str, program: Path) -> None:
        port = self._ports[name]
        named = ("--name", name, "--address", f"http://127.0.0.1:{port}")
        self.processes[name] = OwnProcess(self._url, *named, port=port, program=program)

    def stop(self, name: str) -> None:
        assert self.processes.pop(name).stop() == 0

    def kill(self, name: str) -> None:
        self.processes.pop(name).kill()


class Load:
    """A writer for each stream, which notes 1, 2, 3 …, each again until somebody has answered it."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses
        self.answered = dict.fromkeys(STREAMS, 0)
        self._news = threading.Condition()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(stream,)) for stream in STREAMS]
        for thread in self._threads:
            thread.start()

    def goes_on(self) -> None:
        """Returns once every stream has three more notes that were answered."""
        wanted = {stream: count + 3 for stream, count in self.answered.items()}
        with self._news:
            assert self._news.wait_for(
                lambda: all(self.answered[stream] >= count for stream, count in wanted.items()), PATIENCE_S
            ), self.answered

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _write(self, stream: str) -> None:
        with ExitStack() as opened:
            clients = [opened.enter_context(httpx.Client(base_url=each, timeout=10)) for each in self._addresses]
            number = 1
            while not self._over.wait(0.01):
                note = {"writer": "w", "time": number, "position": {"0": number}}
                try:
                    answer = clients[number % len(clients)].post(f"/v1/streams/{stream}/notes", json=note)
                except httpx.TransportError:
                    clients.reverse()
                    continue
                if answer.status_code >= 500:
                    clients.reverse()
                    continue
                assert answer.is_success or answer.json()["code"] == "time_went_back", answer.text
                with self._news:
                    self.answered[stream] = number
                    self._news.notify_all()
                number += 1


@pytest.fixture
def members(postgres_url: str) -> Iterator[Members]:
    made = Members(postgres_url, ["one", "two"])
    yield made
    for name in list(made.processes):
        made.kill(name)


@pytest.fixture
def loaded() -> Iterator[Callable[[list[str]], Load]]:
    begun: list[Load] = []

    def begin(addresses: list[str]) -> Load:
        begun.append(Load(addresses))
        return begun[-1]

    yield begin
    for each in begun:
        each.stop()


def all_marks(client: httpx.Client, stream: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while True:
        after = found[-1][0] if found else 0
        page = client.get(f"/v1/streams/{stream}/marks", params={"after": after, "limit": PAGE}).json()["marks"]
        if not page:
            return found
        found += [(mark["seq"], mark["time"]) for mark in page]


def test_the_commands_of_the_page_do_what_it_says(
    postgres: Postgres,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """But for the names of the databases."""
    monkeypatch.chdir(tmp_path)
    lines = [line.split() for block in blocks_of("docs/how-to/upgrade.md") for line in commands_of(block.text)]
    assert [words[1] for words in lines] == ["backup", *["migrate"] * 4]
    empty = postgres.new_database()
    open_database(postgres_url).close()
    for _, *words, database in lines:
        assert main([*words, empty if database.endswith("/empty") else postgres_url]) == 0
    postgres.give_back(empty)
    told = capsys.readouterr().out
    assert "replace the controllers one by one" in told and "went from nothing to" in told


def test_controllers_are_replaced_one_by_one_under_load(
    postgres_url: str, tmp_path: Path, members: Members, loaded: Callable[[list[str]], Load]
) -> None:
    later = later_version.make(tmp_path)

    def migrate(option: str) -> str:
        """What a migration by the later version says."""
        done = run(later, "migrate", option, "--database", postgres_url)
        return done.stdout + done.stderr

    for name in ("one", "two"):
        members.start(name, ROOT)
    for stream in STREAMS:
        assert members.processes["one"].client.put(f"/v1/streams/{stream}", json=CONFIG).is_success
    load = loaded(members.addresses)

    assert f"to {ADDS}; replace the controllers one by one" in migrate("--before")
    members.kill("one")
    members.start("one", ROOT)  # as a supervisor does, in the middle of the upgrade
    load.goes_on()

    members.stop("one")
    members.start("one", later)
    load.goes_on()
    assert "of an earlier version serve the store ('two'): replace them first" in migrate("--after")
    members.stop("one")  # the version before serves what the later one wrote
    load.goes_on()
    members.start("one", later)
    members.stop("two")
    members.start("two", later)
    load.goes_on()

    assert f"went from {ADDS} to {REMOVES}" in migrate("--after")
    load.goes_on()
    refused = run(ROOT, "serve", "--port", "0", "--database", postgres_url, "--name", "three", "--address", "http://c")
    assert f"the store's schema is {REMOVES}" in refused.stderr and "use a version as new as" in refused.stderr
    load.stop()
    for process in members.processes.values():
        for stream in STREAMS:
            marks = all_marks(process.client, stream)
            assert marks == [(number, number) for number in range(1, len(marks) + 1)]
            assert len(marks) >= load.answered[stream]
