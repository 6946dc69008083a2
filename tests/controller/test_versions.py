"""Two controllers on one store: what a caller has seen at one, the other shows too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.served import InProcess, ManualClock

CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
ASKS = [
    ("GET", "/v1/streams/s/marks", None),
    ("GET", "/v1/streams/s/marks/at?time=5", None),
    ("POST", "/v1/streams/s/time-window", {"position": {"0": 100}}),
]


@pytest.fixture
def two(postgres_url: str) -> Iterator[tuple[InProcess, InProcess]]:
    clock = ManualClock()
    with InProcess(postgres_url, clock) as one, InProcess(postgres_url, clock) as other:
        one.call("PUT", "/v1/streams/s", CONFIG)
        yield one, other


def ask(controller: InProcess, call: tuple[str, str, Any], seen: str | None = None) -> tuple[str, Any]:
    """The answer and its version."""
    method, path, body = call
    headers = {} if seen is None else {"Strandline-Seen": seen}
    response = controller.request(method, path, headers=headers, **({} if body is None else {"json": body}))
    assert response.status_code == 200, response.text
    return response.headers["strandline-version"], response.json()


def test_an_answer_is_as_new_as_what_the_caller_has_seen(two: tuple[InProcess, InProcess]) -> None:
    one, other = two
    for call in ASKS:
        for time in range(1, 20):
            one.note("w", time, {"0": time})
            ask(other, call)  # so that it has the stream in memory, as it is now or was a moment ago
            if time % 6 == 5:  # it is another one of that name now
                one.call("DELETE", "/v1/streams/s")
                one.call("PUT", "/v1/streams/s", CONFIG)
            if time == 19:
                one.note("w", time * 100, {"0": time * 100})
            version, shown = ask(one, call)
            assert ask(other, call, version) == (version, shown)
        version, shown = ask(one, call)
        assert ask(one, call, "other-99999")[1] == shown  # of another stream
        method, path, body = call
        for seen in ("-", "", f"{version}x", "x", "-5", "9" * 40):
            given = {} if body is None else {"json": body}
            refused = one.request(method, path, headers={"Strandline-Seen": seen}, **given)
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_parameter"), seen
        one.call("DELETE", "/v1/streams/s")
        one.call("PUT", "/v1/streams/s", CONFIG)


def test_without_the_store_it_shows_what_it_has_but_nobody_is_shown_less_than_he_saw(new_postgres: Any) -> None:
    postgres, clock = new_postgres("fsync=off"), ManualClock()
    url = postgres.new_database()
    with InProcess(url, clock) as one, InProcess(url, clock) as other:
        one.call("PUT", "/v1/streams/s", CONFIG)
        one.note("w", 1, {"0": 1})
        old, shown = ask(other, ASKS[0])
        one.note("w", 2, {"0": 2})
        new, _ = ask(one, ASKS[0])
        postgres.stop()
        assert ask(other, ASKS[0], old) in [(old, shown), ask(one, ASKS[0])]
        if ask(other, ASKS[0])[0] == old:
            response = other.request("GET", "/v1/streams/s/marks", headers={"Strandline-Seen": new})
            assert (response.status_code, response.json()["code"]) == (503, "store_unavailable")
        postgres.start()


def test_an_sqlite_store_has_one_controller_and_its_answers_have_no_version(controller: InProcess) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    assert "strandline-version" not in controller.request("GET", "/v1/streams/s/marks").headers
