"""Thousands of writers in one process share one thread, a few connections, and a few requests."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from strandline.client.calls import Request
from strandline.client.http import Connection, HttpTransport
from strandline.client.retry import Outcome
from writer_client import Background, BackgroundWriter
from writer_client.sender import CALLS_AT_ONCE

pytestmark = pytest.mark.full

WRITERS = int(os.environ.get("MANY_WRITERS", "2500"))  # ten thousand in `make soak`


class CountingTransport:
    """httpx, and how many requests were under way at once: it opens no more connections than that.

    A request with notes waits until `noted` is set, so that how many there are does not depend on the machine's pace.
    """

    def __init__(self, url: str) -> None:
        self._inner = HttpTransport(url)
        self._lock = threading.Lock()
        self._under_way = 0
        self.most_at_once = 0
        self.requests_with_notes = 0
        self.noted = threading.Event()

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        with self._lock:
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
            self.requests_with_notes += request.path.endswith("/notes")
        try:
            if request.path.endswith("/notes"):
                assert self.noted.wait(120)
            return self._inner.send(request, timeout_ms)
        finally:
            with self._lock:
                self._under_way -= 1

    def close(self) -> None:
        self._inner.close()


@pytest.mark.timeout(300)
def test_thousands_of_writers_share_few_connections(controller: Any) -> None:
    stream = controller.stream(4)
    transport = CountingTransport(controller.url)
    threads = threading.active_count()
    connection = Connection(controller.url, transport=transport)
    with connection, Background(connection) as background:
        writers = [BackgroundWriter(background, stream, f"w{number}") for number in range(WRITERS)]
        for time in (100, 200):
            transport.noted.clear()
            for number, writer in enumerate(writers):
                writer.note_time(time, {str(number % 4): time + number})
            transport.noted.set()
            assert all(writer.wait_until_answered(120_000) for writer in writers)
        assert threading.active_count() <= threads + 2 + CALLS_AT_ONCE  # one of the writers, one of the connection
        for writer in writers:
            writer.release()
    assert transport.most_at_once <= CALLS_AT_ONCE
    assert transport.requests_with_notes <= 60
    assert controller.states(stream) == {"active": WRITERS}
    last = controller.marks(stream)[-1]
    assert (last.time, last.complete) == (200, True)
    assert last.cut == {str(segment): 200 + WRITERS - 4 + segment for segment in range(4)}
