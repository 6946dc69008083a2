"""Durable before answered: restarts, and a store that fails. What kills lose is tested in tests/chaos."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from controller.storage.marks import LOADED_MARKS
from tests.operations.scraping import scrape
from tests.served import OwnProcess

pytestmark = pytest.mark.usefixtures("both_stores")


CONFIG = {"segments": 3, "mark_interval_ms": 0, "max_ahead_ms": None}


@pytest.fixture
def failing(database: str, beside: Any) -> Callable[[str, str], AbstractContextManager[None]]:
    """Lets the database itself refuse rows of a table."""

    @contextmanager
    def refuse(table: str, when: str) -> Iterator[None]:
        if database.startswith("sqlite"):
            body = f"BEFORE INSERT ON {table} WHEN {when} BEGIN SELECT RAISE(ABORT, 'no room'); END"
            beside(f"CREATE TRIGGER refuse {body}")
            yield
            beside("DROP TRIGGER refuse")
        else:
            body = "BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END"
            trigger = f"BEFORE INSERT ON {table} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION refuse()"
            beside(
                f"CREATE FUNCTION refuse() RETURNS trigger AS $$ {body} $$ LANGUAGE plpgsql",
                f"CREATE TRIGGER refuse {trigger}",
            )
            yield
            beside("DROP FUNCTION refuse CASCADE")

    return refuse


def everything(controller: Any, stream: str = "s") -> list[Any]:
    described = controller.call("GET", f"/v1/streams/{stream}")
    for segment in described["segments"]:
        segment.pop("last_noted_at")
    return [described, controller.call("GET", f"/v1/streams/{stream}/writers"), controller.marks(stream)]


def test_a_restart_in_order_changes_nothing(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", {**CONFIG, "min_writers": 2})
    controller.call("PUT", "/v1/streams/s/writers/b", {"keys": ["", "k"]})
    controller.note("a", 100, {"0": 5}, newest=130)
    controller.note("a", 200, {"0": 9})
    controller.note("b", 150, {"1": 5})
    controller.call("POST", "/v1/streams/s/scale", {"seal": {"0": 9}, "create": [{"id": "3", "low": 0, "high": 1 / 3}]})
    controller.call("POST", "/v1/streams/s/truncate", {"head": {"0": 2}})
    before = everything(controller)

    controller = start()
    assert everything(controller) == before
    controller.call("POST", "/v1/streams/s/seal")
    before = everything(controller)
    assert everything(start()) == before


def test_notes_are_counted_when_they_are_durable(controller: Any, failing: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    with failing("mark", "true"):
        for _ in range(3):
            note = {"writer": "a", "time": 100, "position": {"0": 1}}
            controller.call("POST", "/v1/streams/s/notes", note, expect=503)
    controller.note("a", 100, {"0": 1})
    assert controller.call("GET", "/v1/status?stream=s")["streams"][0]["notes"] == 1
    assert scrape(controller).value("stream_notes_total", stream="s") == 1


def test_a_failed_commit_fails_every_caller_changes_no_memory_and_is_shown_to_nobody(
    controller: Any, failing: Any
) -> None:
    with failing("segment", "true"):
        controller.call("PUT", "/v1/streams/s", CONFIG, expect=503)
        controller.call("GET", "/v1/streams/s", expect=404)
    controller.call("PUT", "/v1/streams/s", CONFIG, expect=201)
    controller.note("a", 100, {"0": 1})
    before = everything(controller)
    waiting = controller.request_soon("GET", "/v1/streams/s/marks?after=1&wait_ms=30000")

    with failing("mark", "NEW.time >= 666"):
        note = {"writer": "a", "time": 666, "position": {"0": 666}}  # the same from all: they come in any order
        calls = [controller.request_soon("POST", "/v1/streams/s/notes", json=note) for _ in range(3)]
        answers = [call.result(30) for call in calls]
        assert {(each.status_code, each.json()["code"]) for each in answers} == {(503, "store_unavailable")}
        assert {each.headers["retry-after"] for each in answers} == {"1"}
        assert everything(controller) == before
        window = controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 1}})
        assert (window["lower"], window["upper"]) == (100, None)

    assert [mark["time"] for mark in controller.note("a", 700, {"0": 666})["marks"]] == [700]
    assert [mark["time"] for mark in waiting.result(60).json()["marks"]] == [700]


CHANGES: tuple[tuple[str, str, object], ...] = (
    ("POST", "/notes", {"writer": "a", "time": 200, "position": {}}),
    ("PUT", "/writers/b", {}),
    ("POST", "/writers/a/idle", None),
    ("DELETE", "/writers/a", None),
    ("POST", "/writers/a/exclude", None),
    ("DELETE", "/writers/x/exclude", None),
    ("POST", "/marks", None),
    ("PATCH", "", {"min_writers": 2}),
    ("POST", "/scale", {"seal": {"0": 9}, "create": [{"id": "3", "low": 0, "high": 1 / 3}]}),
    ("POST", "/truncate", {"head": {"0": 1}}),
    ("POST", "/seal", {"final": {"0": 9, "1": 9, "2": 9}}),
)


def test_no_call_that_changes_a_stream_is_answered_before_its_commit(controller: Any, failing: Any) -> None:
    for number, (method, path, body) in enumerate(CHANGES):
        name = f"s{number}"
        stream = f"/v1/streams/{name}"
        controller.call("PUT", stream, {**CONFIG, "mark_interval_ms": None})
        controller.note("a", 100, {"0": 1}, name)
        controller.note("x", 150, {"0": 1}, name)
        controller.call("POST", f"{stream}/writers/x/exclude")
        before = everything(controller, name)

        with failing("head", "true"):
            controller.call(method, f"{stream}{path}", body, expect=503)
            assert everything(controller, name) == before

        controller.call(method, f"{stream}{path}", body)
        assert everything(controller, name) != before


def test_lists_show_what_was_committed_right_before_a_kill(database: str) -> None:
    killed = OwnProcess(database)
    killed.client.put("/v1/streams/s", json=CONFIG).raise_for_status()
    note = {"writer": "w", "times": {"": 5}, "position": {"0": 5}}
    killed.client.post("/v1/streams/s/notes", json=note).raise_for_status()
    killed.kill()
    served = OwnProcess(database)
    until = time.monotonic() + 20
    while (states := served.client.get("/v1/status").json()["streams"][0]["writers"]) != {"active": 1}:
        assert time.monotonic() < until, states
        time.sleep(0.1)
    served.stop()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/reader-groups/g/readers/r", {"positions": {"s": {"0": 2}}}),
        ("POST", "/v1/streams/s/truncate", {"head": {"0": 2}}),
    ],
)
def test_a_stored_unanswered_call_does_not_claim_nothing_changed(
    start: Any, beside: Any, method: str, path: str, body: Any
) -> None:
    """A table that is away makes the store fail at the very step."""
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    notes = [{"writer": "a", "time": time, "position": {"0": time}} for time in range(1, LOADED_MARKS + 5)]
    controller.call("POST", "/v1/streams/s/notes", {"notes": notes})
    controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
    controller = start()
    for loaded in ("/v1/streams/s", "/v1/reader-groups/g"):  # of the marks the newest; the answer needs an older one
        controller.call("GET", loaded)

    beside("ALTER TABLE mark RENAME TO mark_away")
    problem = controller.call(method, path, body, expect=504)

    assert problem["code"] == "store_undecided" and "nothing was changed" not in problem["detail"]
    beside("ALTER TABLE mark_away RENAME TO mark")
    if method == "PUT":
        (reader,) = controller.call("GET", "/v1/reader-groups/g")["readers"]
        assert reader["owned"] == body["positions"]
    else:
        assert controller.call("GET", "/v1/streams/s")["head"] == body["head"]
