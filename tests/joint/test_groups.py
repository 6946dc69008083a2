"""Reader groups whose streams several controllers own, on one PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from tests.joint.test_served import PATIENCE_S, STREAMS, Start, create_all, done, note_all, start
from tests.served import OwnProcess

pytestmark = pytest.mark.full

GROUP = "/v1/reader-groups/g"
__all__ = ["start"]  # the fixture


def report(process: OwnProcess, offset: int, epoch: int | None = None) -> httpx.Response:
    body: dict[str, Any] = {"positions": {stream: {"0": offset} for stream in STREAMS}}
    return process.client.put(f"{GROUP}/readers/r", json=body if epoch is None else {**body, "epoch": epoch})


def owner_of(path: str, processes: Sequence[OwnProcess]) -> OwnProcess:
    """Whoever is not named by the answer of the other one."""
    named = done(processes[0], "GET", path).headers.get("strandline-owner", processes[0].url)
    return next(each for each in processes if each.url == named)


def group_of_two_owners(processes: Sequence[OwnProcess]) -> OwnProcess:
    """Creates the streams, with marks at 1, and a group of all; returns whoever owns the group once both own some."""
    create_all(processes[0])
    note_all(processes[0], 1)
    done(processes[0], "PUT", GROUP, {"streams": STREAMS})
    deadline = time.monotonic() + PATIENCE_S
    while len({owner_of(f"/v1/streams/{stream}", processes).url for stream in STREAMS}) < 2:
        assert time.monotonic() < deadline
    return owner_of(GROUP, processes)


def test_a_group_goes_on_when_an_owner_of_its_streams_is_killed(postgres_url: str, start: Start) -> None:
    processes = [start(postgres_url, "one"), start(postgres_url, "two")]
    owner = group_of_two_owners(processes)
    killed = next(each for each in processes if each is not owner)
    epoch = report(killed, 1).json()["epoch"]
    assert all(done(each, "GET", f"{GROUP}/time-window").json()["watermarks"] == {"": 1} for each in processes)
    assert done(killed, "GET", f"{GROUP}/lag").json()["streams"].keys() == set(STREAMS)
    assert done(killed, "PATCH", GROUP, {"reader_timeout_ms": None}).json()["streams"] == STREAMS

    note_all(owner, 2)
    killed.kill()
    deadline, watermarks = time.monotonic() + PATIENCE_S, [1]
    refusals: set[tuple[int, str]] = set()
    while watermarks[-1] < 3:
        assert time.monotonic() < deadline, refusals
        answer = report(owner, 2 if len(watermarks) < 3 else 3, epoch)
        if answer.is_success:
            watermarks.append(answer.json()["window"]["watermarks"][""])
            note_all(owner, 3)
        else:
            refusals.add((answer.status_code, answer.json()["code"]))
    assert watermarks == sorted(watermarks)
    assert refusals <= {(503, "stream_away"), (503, "stream_loading"), (503, "store_unavailable")}
