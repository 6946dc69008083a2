"""Several processes at one port: `strandline serve --workers`."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.served import OwnProcess, run_command

pytestmark = pytest.mark.full
WORKERS = 3


@pytest.fixture
def served(postgres_url: str) -> Iterator[OwnProcess]:
    server = OwnProcess(postgres_url, "--workers", str(WORKERS))
    yield server
    if server.process.poll() is None:
        server.stop()


def controllers(server: OwnProcess) -> set[str]:
    """The processes that say that they serve, by their names."""
    listed = httpx.get(f"{server.url}/v1/controllers", timeout=10).json()["controllers"]
    return {each["name"] for each in listed if each["state"] == "serving"}


def test_each_is_a_controller_one_that_dies_is_started_again_and_all_end_with_the_first(served: OwnProcess) -> None:
    with httpx.Client(base_url=served.url, timeout=10) as client:
        client.put("/v1/streams/s", json={"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None})
        before, seen = controllers(served), dict[str, str]()
        assert len(before) == WORKERS
        for time in range(1, 200):  # over many connections, which the processes share
            note = {"writer": "w", "time": time, "position": {"0": time}}
            answer = httpx.post(f"{served.url}/v1/streams/s/notes", json=note, timeout=10)
            assert answer.status_code == 200
            seen = {"Strandline-Seen": answer.headers["strandline-version"]}
        assert len(client.get("/v1/streams/s/marks?limit=1000", headers=seen).json()["marks"]) == 199

    killed = int(min(before).rpartition(":")[2])
    os.kill(killed, signal.SIGKILL)
    while not (len(now := controllers(served)) == WORKERS and min(before) not in now):
        pass
    while httpx.get(f"{served.url}/v1/status", timeout=10).json()["controllers"] != {"serving": WORKERS}:
        pass  # the new one takes its place

    assert served.stop() == 0


def test_one_that_dies_at_its_start_is_started_again_and_all_end_in_order_however_often_they_are_told(
    served: OwnProcess,
) -> None:
    def processes() -> set[str]:
        first = served.process.pid
        return set(Path(f"/proc/{first}/task/{first}/children").read_text().split())

    before, killed = processes(), min(controllers(served))
    os.kill(int(killed.rpartition(":")[2]), signal.SIGKILL)
    while not (new := processes() - before):
        pass
    os.kill(int(new.pop()), signal.SIGKILL)
    while not (len(now := controllers(served)) == WORKERS and killed not in now):
        pass
    assert served.stop(signal.SIGTERM, signal.SIGTERM) == 0
    assert "Traceback" not in served.log


def test_if_the_first_process_is_killed_the_others_end(served: OwnProcess) -> None:
    processes = {int(each.rpartition(":")[2]) for each in controllers(served)}
    served.process.kill()
    served.process.wait()
    while any(Path(f"/proc/{each}").exists() for each in processes):
        pass


def test_of_two_controllers_the_living_one_says_that_the_other_is_away_and_ended_if_it_did(postgres_url: str) -> None:
    def runs(*words: str) -> str:
        done = run_command(*words, "--controller", living.url)
        assert isinstance(done, subprocess.CompletedProcess)
        return done.stdout

    living, killed, stopped = (OwnProcess(postgres_url) for _ in range(3))
    assert stopped.stop() == 0
    killed.process.kill()
    killed.process.wait()
    while "1 of 2 controllers serve" not in (shown := runs("overview")):
        assert "2 of 2 controllers serve" in shown
    states = {line.split()[0]: line.split()[1] for line in runs("controllers").splitlines()[1:]}
    host = next(iter(states)).partition(":")[0]
    processes = {each.process.pid: each for each in (living, killed, stopped)}
    assert states == dict(zip((f"{host}:{pid}" for pid in processes), ("serving", "away", "ended"), strict=True))
    assert living.stop() == 0


def test_a_store_that_takes_one_controller_is_refused(tmp_path: Path) -> None:
    refused = run_command("serve", "--database", str(tmp_path / "store.db"), "--port", "0", "--workers", "2")
    assert isinstance(refused, subprocess.CompletedProcess)
    assert refused.returncode == 2
    assert "--workers 2" in refused.stderr and "takes one controller" in refused.stderr
    assert not (tmp_path / "store.db").exists()
