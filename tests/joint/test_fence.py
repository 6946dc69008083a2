"""A host that was suspended, so that its monotonic clock stood still, and callers who have seen more than it knows."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from controller.app import SystemClock, create_app
from controller.settings import Settings
from tests.in_thread import InThread, url_of
from tests.joint.test_served import STREAM, until
from tests.mute import MuteWire
from tests.postgres import Postgres

pytestmark = pytest.mark.full


class SuspendedClock(SystemClock):
    """The host's clocks. While the host is suspended its monotonic clock stands still, and then goes on from there. So
    its controller sends no beat and does not see its lease end."""

    def __init__(self) -> None:
        self._behind_ms = 0
        self._stood_at: int | None = None

    def monotonic(self) -> int:
        return super().monotonic() - self._behind_ms if self._stood_at is None else self._stood_at

    def suspend(self) -> None:
        self._stood_at = self.monotonic()

    def wake(self) -> None:
        assert self._stood_at is not None
        self._behind_ms, self._stood_at = super().monotonic() - self._stood_at, None


class Served(InThread):
    """A controller that serves a store together with others, on a host that can be suspended."""

    def __init__(self, url: str, name: str) -> None:
        self.host = SuspendedClock()
        listener = socket.create_server(("127.0.0.1", 0))
        address = url_of(listener)
        settings = Settings(database=url, name=name, address=address, client_address=address)
        super().__init__(create_app(settings, clock=self.host), listener)


Start = Callable[[str, str], Served]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as ended:

        def started(url: str, name: str) -> Served:
            served = Served(url, name)
            ended.callback(served.stop)
            return served

        yield started


def note(controller: Served, moment: int) -> httpx.Response:
    body = {"writer": "w", "time": moment, "position": {"0": moment}}
    return until(
        lambda: controller.ask("POST", "/v1/streams/s/notes", body),
        lambda answer: answer.is_success or answer.json()["code"] == "time_went_back",
    )


def marks(controller: Served, **headers: str) -> httpx.Response:
    return controller.ask("GET", "/v1/streams/s/marks", **headers)


def times(answer: httpx.Response) -> list[int]:
    return [mark["time"] for mark in answer.json()["marks"]]


@pytest.fixture
def wire(postgres: Postgres) -> Iterator[MuteWire]:
    wire = MuteWire(postgres.port)
    yield wire
    wire.close()


def test_a_host_that_was_suspended_shows_nothing_older_than_the_caller_saw(
    postgres: Postgres, postgres_url: str, start: Start, wire: MuteWire
) -> None:
    one = start(wire.url(postgres_url), "one")
    until(lambda: one.ask("PUT", "/v1/streams/s", STREAM), lambda answer: answer.is_success)
    note(one, 1)
    first_fence = marks(one).headers["strandline-fence"]
    one.host.suspend()
    wire.muted.set()
    two = start(postgres_url, "two")
    until(lambda: marks(two), lambda answer: answer.headers.get("strandline-owner") == two.url)
    note(two, 2)
    seen = marks(two)
    fence = seen.headers["strandline-fence"]
    assert times(seen) == [1, 2] and int(fence) > int(first_fence)

    assert times(marks(one)) == [1]  # it cannot know better, and neither can a caller that has seen nothing else
    assert times(marks(one, Strandline_Fence=first_fence)) == [1]
    one.host.wake()
    assert marks(one, Strandline_Fence=fence).status_code == 503  # it has heard nothing of the store yet

    wire.muted.clear()
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    shown = until(lambda: marks(one, Strandline_Fence=fence), lambda answer: answer.is_success)
    assert times(shown) == [1, 2] and int(shown.headers["strandline-fence"]) >= int(fence)


def test_a_host_that_was_suspended_shows_nothing_that_a_later_owner_wrote(postgres_url: str, start: Start) -> None:
    """Its fence would be too low for that, and another former owner could show the caller something older."""
    one = start(postgres_url, "one")
    until(lambda: one.ask("PUT", "/v1/streams/s", STREAM), lambda answer: answer.is_success)
    one.host.suspend()
    two = start(postgres_url, "two")
    until(lambda: marks(two), lambda answer: answer.headers.get("strandline-owner") == two.url)
    until(lambda: two.ask("PUT", "/v1/streams/t", STREAM), lambda answer: answer.is_success)

    answer = one.ask("GET", "/v1/streams/t")
    if answer.is_success:  # it asked the store in time, and passed the call on
        assert answer.headers["strandline-owner"] == two.url, answer.text
    else:
        code, detail = answer.json()["code"], answer.json()["detail"]
        refused = code == "not_owner" and "written with fence" in detail
        assert refused or (code == "store_unavailable" and "holds no lease" in detail), answer.text
    one.host.wake()
    until(lambda: one.ask("GET", "/v1/streams/t"), lambda answer: answer.is_success)


def test_a_fence_that_the_store_never_gave_is_answered_with_the_true_one(postgres_url: str, start: Start) -> None:
    one = start(postgres_url, "one")
    until(lambda: one.ask("PUT", "/v1/streams/s", STREAM), lambda answer: answer.is_success)
    fence = marks(one).headers["strandline-fence"]
    answer = until(lambda: marks(one, Strandline_Fence=str(2**62)), lambda answer: answer.is_success)
    assert answer.headers["strandline-fence"] == fence
