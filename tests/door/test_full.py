"""More connections than the process can have: it goes on answering, and says so to those whom it turns away."""

from __future__ import annotations

import re
import select
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest

from controller.limits import DEFAULT_LIMITS
from controller.server import OTHER_FILES
from tests.door.raw import Raw
from tests.served import OwnProcess

PROBE = b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n"
POLL = b"GET /v1/streams/s/marks?wait_ms=30000&key=%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
FILES = 400
ROOM = FILES - OTHER_FILES


@pytest.fixture
def full(serve: Callable[..., OwnProcess]) -> OwnProcess:
    """A controller that may have few connections."""
    assert shutil.which("prlimit"), "it is in util-linux: apt-get install -y util-linux"
    process = serve(files=FILES)
    process.client.put("/v1/streams/s", json={"segments": 1})
    process.client.close()  # whose connection would count
    return process


def status_of(process: OwnProcess, path: str) -> int:
    with Raw(process) as raw:
        return raw.send(PROBE % path.encode()).answer().status


def test_silent_connections_make_room_and_where_all_are_used_a_further_one_ends_until_one_leaves(
    full: OwnProcess,
) -> None:
    with ExitStack() as opened:
        silent = [opened.enter_context(Raw(full)) for _ in range(ROOM)]
        select.select([], [], [], 2 * DEFAULT_LIMITS.evicted_after_s)
        for path in ("/healthz", "/readyz"):
            assert status_of(full, path) == 200
        assert silent[0].is_closed()
        assert status_of(full, "/v1/streams") == 200
    with ExitStack() as opened:
        polls = [opened.enter_context(Raw(full)).send(POLL % number) for number in range(ROOM)]
        with Raw(full) as raw:
            assert raw.is_closed()
        polls[0].socket.close()
        found = 0
        while not found:  # the controller notices a little later that one has left
            with suppress(AssertionError, ConnectionError):
                found = status_of(full, "/v1/streams")
        assert found == 200
    assert full.stop() == 0 and "Traceback" not in full.log
    told = re.search(r"connections_full open=(\d+) limit=(\d+)", full.log)
    assert told is not None and int(told[2]) == ROOM
