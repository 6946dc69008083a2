"""What only a store with a way to it can do: be away, come back, and leave us without an answer."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.postgres import Fault, Postgres, Wire
from tests.served import run_command

pytestmark = pytest.mark.full

CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}


@pytest.fixture
def wire(postgres: Postgres) -> Iterator[Wire]:
    wire = Wire(postgres.port)
    yield wire
    wire.close()


@pytest.fixture
def database(wire: Wire, postgres_url: str) -> str:
    return wire.url(postgres_url)


def note(time: int) -> dict[str, Any]:
    return {"writer": "a", "time": time, "position": {"0": time}}


@pytest.mark.parametrize(("fault", "kept"), [(Fault.LOSE, False), (Fault.ANSWER_LOST, True)])
def test_a_call_of_an_unanswered_commit_is_answered_by_what_became_of_it(
    controller: Any, wire: Wire, fault: Fault, kept: bool
) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.note("a", 100, {"0": 100})

    wire.fault = fault
    answer = controller.call("POST", "/v1/streams/s/notes", note(200), expect=200 if kept else 503)

    assert kept or (answer["code"] == "store_unavailable" and "nothing was changed" in answer["detail"])
    assert [mark["time"] for mark in controller.marks()] == [100, 200][: 1 + kept]
    (writer,) = controller.call("GET", "/v1/streams/s/writers")["writers"]
    assert writer["times"] == {"": 200 if kept else 100}
    controller.note("a", 200, {"0": 200})  # as a writer does that was not answered
    controller.note("a", 300, {"0": 300})
    assert [mark["time"] for mark in controller.marks()] == [100, 200, 300]


def test_who_begins_shows_the_stores_clock_however_long_its_first_commit_takes(
    serve: Any, postgres: Postgres, postgres_url: str
) -> None:
    serve().stop()  # the store has its tables
    for statement in (
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RETURN NULL; END'",
        "CREATE TRIGGER slow AFTER INSERT ON controller EXECUTE FUNCTION slow()",
    ):
        postgres.execute(statement, postgres_url)
    controller = serve()
    before = time.time()  # the server runs on this host
    shown = int(controller.client.get("/healthz").headers["strandline-time"])
    assert shown > 1_000 * (before - 1)


def test_nothing_is_read_while_an_unanswered_commit_is_open(controller: Any, wire: Wire) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.note("a", 100, {"0": 100})
    wire.fault = Fault.HOLD
    controller.call("POST", "/v1/streams/s/notes", note(200), expect=504)
    assert wire.struck.is_set()

    again = controller.request_soon("POST", "/v1/streams/s/notes", json=note(300))
    controller.call("GET", "/healthz")
    assert not again.done()
    wire.timed_out.set()

    assert again.result(30).status_code == 200
    assert [mark["time"] for mark in controller.marks()] == [100, 200, 300]


def test_a_second_controller_serves_beside_the_first_and_no_migration_runs_then(serve: Any, postgres_url: str) -> None:
    first, second = serve(), serve()
    assert first.client.put("/v1/streams/s", json=CONFIG).is_success
    assert second.client.post("/v1/streams/s/notes", json=note(100)).is_success
    ended = run_command("migrate", "--database", postgres_url)
    assert ended.returncode == 1 and "another controller is serving postgresql://" in ended.stderr
    assert "Traceback" not in ended.stderr


class TestServer:
    """With a server of its own, which can be stopped."""

    @pytest.fixture
    def server(self, new_postgres: Callable[..., Postgres]) -> Iterator[Postgres]:
        server = new_postgres("fsync=off")
        yield server
        server.stop()

    @pytest.fixture
    def database(self, server: Postgres) -> str:
        return server.new_database()

    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
    def test_it_goes_on_when_the_server_is_back(self, controller: Any, server: Postgres, how: signal.Signals) -> None:
        controller.call("PUT", "/v1/streams/s", CONFIG)
        controller.note("a", 100, {"0": 100})

        server.stop(how)
        assert controller.call("POST", "/v1/streams/s/notes", note(200), expect=503)["code"] == "store_unavailable"
        controller.call("GET", "/readyz", expect=503)
        server.start()

        controller.note("a", 300, {"0": 300})
        controller.call("GET", "/readyz")
        assert [mark["time"] for mark in controller.marks()] == [100, 300]
