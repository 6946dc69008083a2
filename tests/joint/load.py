"""Controllers in processes of their own, which are replaced while writers note."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.ports import free_ports
from tests.served import ROOT, OwnProcess

STREAMS = [f"s{number}" for number in range(4)]
CONFIG = {"segments": 1, "max_ahead_ms": None, "mark_interval_ms": 0}
PATIENCE_S = 60
PAGE = 1_000


class Members:
    """Controllers of a store, by name. Each has an address that it keeps, whichever version serves there."""

    def __init__(self, url: str, *names: str) -> None:
        self._url = url
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.addresses = [f"http://127.0.0.1:{port}" for port in self._ports.values()]
        self.processes: dict[str, OwnProcess] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self.processes):
            self.kill(name)

    def start(self, name: str, program: Path = ROOT) -> None:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def goes_on(self) -> None:
        """Returns once every stream has three more notes that were answered."""
        wanted = {stream: count + 3 for stream, count in self.answered.items()}
        with self._news:
            assert self._news.wait_for(
                lambda: all(self.answered[stream] >= count for stream, count in wanted.items()), PATIENCE_S
            ), self.answered

    def _write(self, stream: str) -> None:
        with ExitStack() as opened:
            clients = [opened.enter_context(httpx.Client(base_url=each, timeout=10)) for each in self._addresses]
            number = 1
            while not self._over.wait(0.05):
                clients.append(clients.pop(0))
                note = {"writer": "w", "time": number, "position": {"0": number}}
                try:
                    answer = clients[0].post(f"/v1/streams/{stream}/notes", json=note)
                except httpx.TransportError:
                    continue
                if answer.status_code >= 500:
                    continue
                assert answer.is_success or answer.json()["code"] == "time_went_back", answer.text
                with self._news:
                    self.answered[stream] = number
                    self._news.notify_all()
                number += 1


def all_marks(client: httpx.Client, stream: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while True:
        after = found[-1][0] if found else 0
        page = client.get(f"/v1/streams/{stream}/marks", params={"after": after, "limit": PAGE}).json()["marks"]
        if not page:
            return found
        found += [(mark["seq"], mark["time"]) for mark in page]


def check_marks(client: httpx.Client, answered: dict[str, int]) -> None:
    """Every stream has a mark for each note, in order and without a gap, and one for every note that was answered."""
    for stream, count in answered.items():
        marks = all_marks(client, stream)
        assert marks == [(number, number) for number in range(1, len(marks) + 1)]
        assert len(marks) >= count
