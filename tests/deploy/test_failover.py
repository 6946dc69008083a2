"""PostgreSQL fails over to a synchronous standby, under a controller that serves, as the page about it says."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from strandline.client import calls
from strandline.client.http import Connection
from tests.postgres import Postgres
from tests.readme.pages import ROOT
from tests.served import AT_ONCE, OwnProcess

pytestmark = pytest.mark.full

PAGE = "docs/how-to/postgresql-failover.md"
ANSWERED = 40  # notes, before the primary is gone and after that
DEADLINE_S = 60
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class Notes:
    """One writer that notes rising times until it is stopped: the times that were answered, and the marks it got."""

    def __init__(self, url: str) -> None:
        self.marks: list[dict[str, Any]] = []
        self.times: list[int] = []
        self._url = url
        self._over = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_for(self, answered: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.times) >= answered, DEADLINE_S), self.times

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=30) as client:
            time = 1
            while not self._over.is_set():
                note = {"writer": "w", "time": time, "position": {"0": time}}
                answer = client.post("/v1/streams/orders/notes", json=note)
                if answer.status_code in (503, 504):
                    self._over.wait(0.1)
                    continue
                marks = answer.raise_for_status().json()["marks"]
                with self._changed:
                    self.marks += marks
                    self.times.append(time)
                    self._changed.notify_all()
                time += 1


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def all_marks(client: httpx.Client) -> dict[int, dict[str, Any]]:
    """By their seq."""
    found: dict[int, dict[str, Any]] = {}
    while True:
        query = {"after": max(found, default=0), "limit": 1000}
        more = client.get("/v1/streams/orders/marks", params=query).raise_for_status().json()["marks"]
        if not more:
            return found
        found |= {mark["seq"]: mark for mark in more}


def page_block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", (ROOT / PAGE).read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_nothing_answered_is_lost_when_a_synchronous_standby_is_promoted(
    new_postgres: Callable[..., Postgres],
) -> None:
    primary = new_postgres()
    primary.execute("CREATE DATABASE strandline")
    standby = new_postgres("cluster_name=b", primary=primary)
    for name, value in re.findall(r"^(\w+) = (.+)$", page_block("ini"), re.MULTILINE):
        primary.execute(f"ALTER SYSTEM SET {name} = {value}")
    primary.execute("SELECT pg_reload_conf()")
    (query,) = re.findall(r'psql -c "(.*)"', page_block("sh"))
    wait_until(lambda: ("b", "streaming", "quorum") in primary.execute(query))
    url = re.findall(r"(postgresql://[^\s']+)", (ROOT / PAGE).read_text())[0]
    for name, server in (("a.example:5432", primary), ("b.example:5432", standby)):
        url = url.replace(name, f"127.0.0.1:{server.port}")

    controller = OwnProcess(url)
    with Connection(controller.url) as connection:
        connection.run(calls.create_stream("orders", 1, AT_ONCE))
    notes = Notes(controller.url)
    try:
        notes.wait_for(ANSWERED)
        standby.stop()
        wait_until(lambda: primary.execute(WAITING) != [])  # a commit that the primary has, and the standby lacks
        primary.stop(signal.SIGQUIT)
        standby.start()
        standby.execute("SELECT pg_promote()")
        notes.wait_for(len(notes.times) + ANSWERED)
    finally:
        notes.stop()
        exited = controller.stop()
    assert exited == 0
    again = OwnProcess(f"postgresql://strandline@127.0.0.1:{standby.port}/strandline")
    try:
        kept = all_marks(again.client)
    finally:
        again.stop()
    assert [mark for mark in notes.marks if mark != kept[mark["seq"]]] == []
    noted = {mark["time"] for mark in kept.values()}
    assert [time for time in notes.times if time not in noted] == []
