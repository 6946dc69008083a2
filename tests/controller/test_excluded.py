"""Whom marks leave out: stored once for all marks in a row that leave out the same, and bounded in a page of marks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from controller.mark_retention import RETENTION_CHECK_MS
from controller.operators.store_check import StoreCheck
from controller.storage import marks, schema
from controller.storage.database import looking_into, open_database
from controller.storage.marks import LOADED_MARKS
from tests.served import InProcess

pytestmark = pytest.mark.usefixtures("both_stores")


CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": 0}


def lose(controller: Any, *writers: str, **config: Any) -> None:
    """A stream whose next marks leave out these writers."""
    controller.call("PUT", "/v1/streams/s", {**CONFIG, **config})
    for writer in writers:
        controller.note(writer, 1, {"0": 1})


def mark(controller: Any, *times: int) -> None:
    notes = [{"writer": "z", "time": time, "position": {"0": time}} for time in times]
    controller.call("POST", "/v1/streams/s/notes", {"notes": notes})


def stored(database: str) -> list[tuple[int, str]]:
    with looking_into(database) as connection:
        rows = connection.execute(select(schema.excluded).order_by(schema.excluded.c.seq)).all()
    return [(row.seq, row.writers) for row in rows]


def left_out(controller: Any) -> dict[int, list[str]]:
    return {each["seq"]: each["excluded"] for each in controller.marks()}


def test_writers_that_many_marks_leave_out_are_stored_once(controller: Any, database: str) -> None:
    lose(controller, "a", "b")
    mark(controller, *range(10, 20))
    controller.note("a", 30, {"0": 30})  # is back, and is left out again after its mark
    mark(controller, 30, 31, 32)

    sets = {seq: json.loads(writers) for seq, writers in stored(database)}
    found = left_out(controller)
    assert min(sets.items()) == (2, ["a", "b"])
    assert len(sets) == 3
    assert all(found[seq] == writers for seq, writers in sets.items())
    assert all(found[seq] == ["a", "b"] for seq in range(2, 12))


def test_a_restart_and_a_store_that_is_read_show_the_same(start: Callable[..., InProcess], database: str) -> None:
    controller = start()
    lose(controller, "a")
    mark(controller, *range(10, 20))
    before = left_out(controller)
    controller = start()
    mark(controller, *range(20, 30 + 3 * LOADED_MARKS))  # the oldest are in the store alone

    found = left_out(controller)

    assert {seq: found[seq] for seq in before} == before
    assert [seq for seq, writers in found.items() if writers == ["a"]] == list(range(2, len(found) + 1))
    at = controller.call("GET", "/v1/streams/s/marks/at?time=15")
    assert (at["floor"]["excluded"], at["floor"]["complete"], at["complete"]) == (["a"], False, False)


def test_what_the_oldest_mark_that_stays_names_stays_with_it(controller: Any, database: str) -> None:
    lose(controller, "a", "b", mark_retention_ms=60_000)
    mark(controller, 10)
    controller.call("DELETE", "/v1/streams/s/writers/a/exclude")
    controller.call("POST", "/v1/streams/s/writers/a/exclude")
    controller.note("a", 11, {"0": 11})
    controller.call("DELETE", "/v1/streams/s/writers/a")
    sets = []
    for time in range(20, 40):
        mark(controller, time)
        controller.clock.now += 10_000
        sets.append(len(stored(database)))
        if time == 25:
            controller.call("DELETE", "/v1/streams/s/writers/b/exclude")
            controller.note("b", 1, {"0": 1})
    before = left_out(controller)
    controller.pass_time(0)
    controller.pass_time(RETENTION_CHECK_MS)

    after = left_out(controller)

    assert after and min(after) > 2
    assert after == {seq: before[seq] for seq in after}
    with looking_into(database) as connection:
        check = StoreCheck(connection)
        check.run()
        assert check.faults == []
        with connection.begin():
            named = set(connection.execute(select(schema.mark.c.excluded_since)).scalars()) - {None}
    assert {seq for seq, _ in stored(database)} == named


@pytest.mark.parametrize("missing", [True, False])
def test_a_set_that_cannot_be_read_is_named(start: Callable[..., InProcess], database: str, missing: bool) -> None:
    controller = start()
    lose(controller, "a")
    mark(controller, 10)
    controller.__exit__(None, None, None)
    table = schema.excluded
    with open_database(database) as store, store.writer.begin():
        store.writer.execute(delete(table) if missing else update(table).values(writers="{"))

    with looking_into(database) as connection:
        check = StoreCheck(connection)
        check.run()

    (fault,) = check.faults
    assert (fault.stream, fault.table, fault.row) == ("s", "excluded", "stream 's', key '', seq 2")


def test_a_page_of_marks_that_name_many_writers_is_short(controller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "LIGHT_CHARACTERS", 40)
    lose(controller, *(f"writer-{n}" for n in range(2)))  # 16 characters a mark
    mark(controller, 10, 11, 12)

    pages = [controller.call("GET", f"/v1/streams/s/marks?after={after}") for after in (0, 3)]

    assert [[each["seq"] for each in page["marks"]] for page in pages] == [[1, 2, 3], [4]]
    assert [page.get("more", False) for page in pages] == [True, False]
