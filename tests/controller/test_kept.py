"""Where a call was kept, or part of it, its caller is not told that nothing was changed.

Tables that are away, and triggers that refuse rows, make a store fail at the very step.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from controller.storage.load import LOADED_MARKS
from tests.postgres import Postgres

pytestmark = pytest.mark.usefixtures("store_url")


CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
MARKS = LOADED_MARKS + 5


@pytest.fixture
def execute(database: str, request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Runs a statement in the store, beside the controller."""

    def on_sqlite(statement: str) -> None:
        with closing(sqlite3.connect(database.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.execute(statement)

    def on_postgresql(statement: str) -> None:
        postgres: Postgres = request.getfixturevalue("postgres")
        postgres.execute(statement, database)

    return on_sqlite if database.startswith("sqlite") else on_postgresql


def note(stream: str, time: int) -> dict[str, Any]:
    return {"stream": stream, "writer": "a", "time": time, "position": {"0": time}}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/reader-groups/g/readers/r", {"positions": {"s": {"0": 2}}}),
        ("POST", "/v1/streams/s/truncate", {"head": {"0": 2}}),
    ],
)
def test_a_stored_unanswered_call_does_not_claim_nothing_changed(
    start: Callable[..., Any], execute: Callable[[str], None], method: str, path: str, body: Any
) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.call("POST", "/v1/notes", {"notes": [note("s", time) for time in range(1, MARKS)]})
    controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
    controller = start()
    for loaded in (
        "/v1/streams/s",
        "/v1/reader-groups/g",
    ):  # and of the marks the newest; the answer needs an older one
        controller.call("GET", loaded)

    execute("ALTER TABLE mark RENAME TO mark_away")
    problem = controller.call(method, path, body, expect=504)

    assert problem["code"] == "store_undecided" and "nothing was changed" not in problem["detail"]
    execute("ALTER TABLE mark_away RENAME TO mark")
    if method == "PUT":
        (reader,) = controller.call("GET", "/v1/reader-groups/g")["readers"]
        assert reader["owned"] == body["positions"]
    else:
        assert controller.call("GET", "/v1/streams/s")["head"] == body["head"]
