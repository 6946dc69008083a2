"""More connections than the process can have: it goes on answering, and says so to those whom it turns away."""

from __future__ import annotations

import re
import resource
import shutil
import ssl
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from controller.http.listener import connections_bound
from controller.limits import (
    ACCEPTED_AT_ONCE,
    CONNECTIONS,
    EVICTED_AFTER_S,
    LEAST_CONNECTIONS,
    OTHER_FILES,
    RESERVED_CONNECTIONS,
)
from tests.door.raw import Raw
from tests.served import OwnProcess
from tests.tokens.test_serving import Certificate, certificate

pytestmark = pytest.mark.full

__all__ = ["certificate"]

PROBE = b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n"
POLL = b"GET /v1/streams/s/marks?wait_ms=30000&key=%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
FILES = 400
ROOM = FILES - OTHER_FILES - RESERVED_CONNECTIONS - ACCEPTED_AT_ONCE


@pytest.fixture
def full(serve: Callable[..., OwnProcess]) -> OwnProcess:
    """A controller that may have few connections."""
    assert shutil.which("prlimit"), "it is in util-linux: apt-get install -y util-linux"
    process = serve(files=FILES)
    process.client.put("/v1/streams/s", json={"segments": 1})
    process.client.close()  # whose connection would count
    return process


def status_of(process: OwnProcess, path: str, trusted: ssl.SSLContext | None = None) -> int:
    with Raw(process, trusted) as raw:
        return raw.send(PROBE % path.encode()).answer().status


def test_connections_that_say_nothing_make_room_for_those_who_ask(full: OwnProcess) -> None:
    with ExitStack() as opened:
        silent = [opened.enter_context(Raw(full)) for _ in range(FILES + 100)]
        for path in ("/healthz", "/readyz"):
            assert status_of(full, path) == 200
        silent[0].is_closed()  # once one has been silent for a while it goes, and the next one comes in
        assert status_of(full, "/v1/streams") == 200
    assert full.stop() == 0
    assert "connections_full" in full.log and "Traceback" not in full.log


def test_when_all_connections_are_used_only_probes_are_answered(full: OwnProcess) -> None:
    with ExitStack() as opened:
        polls = [opened.enter_context(Raw(full)).send(POLL % number) for number in range(ROOM)]
        late = [opened.enter_context(Raw(full)) for _ in range(3 * RESERVED_CONNECTIONS)]
        for path in ("/healthz", "/readyz"):
            assert status_of(full, path) == 200
        with Raw(full) as raw:
            answer = raw.send(PROBE % b"/v1/streams").answer()
        assert (answer.status, answer.code, answer.headers["retry-after"], answer.closed) == (
            503,
            "overloaded",
            "1",
            True,
        )
        assert answer.json["limit"] == ROOM and answer.json["what"] == "connections are open"
        assert late[0].is_closed()  # reserved places are for a moment only
        polls[0].socket.close()
        while status_of(full, "/v1/streams") == 503:
            pass  # that one left is heard a little later
    assert full.stop() == 0
    told = re.search(r"connections_full open=(\d+) limit=(\d+)", full.log)
    assert told is not None and int(told[1]) >= int(told[2]) == ROOM


def test_tls_that_does_not_begin_makes_room_as_well(serve: Callable[..., OwnProcess], certificate: Certificate) -> None:
    trusted = ssl.create_default_context(cafile=certificate.certificate)
    options = ("--ssl-certfile", certificate.certificate, "--ssl-keyfile", certificate.key)
    process = serve(*options, trusted=trusted, files=FILES)
    with ExitStack() as opened:
        silent = [opened.enter_context(Raw(process)) for _ in range(FILES + 100)]
        for path in ("/healthz", "/readyz"):
            assert status_of(process, path, trusted) == 200
        assert silent[0].is_closed()
        assert status_of(process, "/v1/streams", trusted) == 200
    assert process.stop() == 0 and "Traceback" not in process.log


def test_a_process_uses_most_file_descriptors_and_leaves_some(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + RESERVED_CONNECTIONS + ACCEPTED_AT_ONCE + OTHER_FILES
    try:
        assert connections_bound() == CONNECTIONS - max(0, wanted - before[1])
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == max(before[0], min(wanted, before[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert LEAST_CONNECTIONS > 0 and EVICTED_AFTER_S > 0
