"""Every number of the pages agrees with `/v1/status`, the metrics and the commands, on a store full of cases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

from controller.cli import main
from controller.operators.wording import NOTHING, Times, behind
from tests.dashboard.conftest import Served
from tests.served import NOON, ManualClock

MANY = 300
CROWD = 5_000
LONG = "n" * 200
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Streams in every condition; the clock stands still."""
    with Served(tmp_path_factory.mktemp("numbers") / "store.db", ManualClock()) as served:
        _begin(served)
        for _ in range(5):
            served.pass_time(30_000)
            _go_on(served, served.clock.now)
        for number in range(MANY):
            served.note("w", served.clock.now - number, {"0": 1}, f"many-{number:03}")
        yield served


def _begin(served: Served) -> None:
    patient = {"writer_timeout_ms": None}
    for name in ("stuck", "stalled", "sealed", "incomplete", "excluded", "idle", "past", "future", "numbers", LONG):
        served.stream(name, **patient)
    served.stream("held", min_writers=3)
    served.stream("lost", writer_timeout_ms=20_000)
    served.stream("crowd", **patient)
    for number in range(MANY):
        served.stream(f"many-{number:03}", **patient)
    notes = [{"writer": f"w-{n:04}", "time": NOON, "position": {}} for n in range(CROWD)]
    for first in range(0, CROWD, 1_000):
        served.call("POST", "/v1/streams/crowd/notes", {"notes": notes[first : first + 1_000]})
    for name in ("stuck", "incomplete", "excluded", "sealed"):
        served.note("slow", NOON, {"0": 1}, name)
        served.note("fast", NOON + 1, {"0": 2}, name)
    for name in ("stalled", "held", "lost", "idle", LONG):
        served.note("w", NOON, {"0": 1}, name)
    served.call("POST", "/v1/streams/incomplete/writers/slow/exclude")
    served.call("POST", "/v1/streams/excluded/writers/slow/exclude")
    served.call("POST", "/v1/streams/excluded/writers/fast/exclude")
    served.call("POST", "/v1/streams/idle/writers/w/idle")
    served.call("POST", "/v1/streams/sealed/seal", {})
    for name in ("one", "two"):
        served.call("PUT", f"/v1/reader-groups/{name}", {"streams": ["stuck"], "backlog_threshold_ms": 1_000})
        served.call("PUT", f"/v1/reader-groups/{name}/readers/r", {"positions": {"stuck": {"0": 2}}})
    for _ in range(3):
        served.call("POST", "/v1/streams/stuck/notes", {"writer": "fast", "time": 1, "position": {}}, expect=409)


def _go_on(served: Served, now: int) -> None:
    for name in ("stuck", "incomplete"):
        served.note("fast", now, {"0": 3}, name)
    served.note("w", 1_000_000_000_000, {"0": 1}, "past")
    served.note("w", now + 500 * 24 * HOUR_MS, {"0": 1}, "future")
    served.note("w", now % 1_000_000, {"0": 1}, "numbers")


@pytest.fixture(scope="module")
def status(world: Served) -> dict[str, dict[str, Any]]:
    """All streams as `/v1/status` gives them, by name."""
    found, after = {}, ""
    while True:
        page = world.call("GET", f"/v1/status?limit=100{after and f'&after={after}'}")
        found.update({each["stream"]: each for each in page["streams"]})
        if page["next"] is None:
            return found
        after = page["next"]


def rows_of(world: Served, table: str, path: str = "/") -> list[dict[str, str]]:
    """The rows of all pages of a table."""
    page = world.page(f"{path}?{table}.rows=100")
    found = page.rows(table)
    while onward := [each for each in page.all("a") if each.attributes.get("id") == f"{table}-next"]:
        page = world.page(path + onward[0]["href"])
        found += page.rows(table)
    return found


def test_the_case_of_each_stream_is_the_one_that_was_meant(status: dict[str, dict[str, Any]]) -> None:
    meant = {"stuck": "stuck", "stalled": "stalled", "sealed": "sealed", "incomplete": "incomplete", "held": "held",
             "lost": "stalled", "idle": "idle", "past": "stuck", "future": "ahead", "crowd": "stalled"}  # fmt: skip
    assert {name: status[name]["state"] for name in meant} == meant
    assert len(status) == MANY + 13


def test_each_row_of_the_overview_agrees_with_the_status(world: Served, status: dict[str, dict[str, Any]]) -> None:
    rows = {each["Stream"]: each for each in rows_of(world, "streams")}
    assert rows.keys() == status.keys()
    for name, found in status.items():
        row, times = rows[name], [each["time"] for each in found["keys"].values() if each["time"] is not None]
        assert row["State"] == found["state"].replace("_", " "), name
        assert row["Lag"] == (NOTHING if found["lag_ms"] is None else behind(found["lag_ms"])), name
        assert row["Time"] == (Times().show(min(times)) if times else NOTHING), name
        counts = {state.replace("_", " "): count for state, count in found["writers"].items()}
        assert row["Writers"] == (", ".join(f"{n} {state}" for state, n in sorted(counts.items())) or "none"), name


def test_the_tiles_and_the_title_agree_with_the_status(world: Served) -> None:
    page, told = world.page("/"), world.call("GET", "/v1/status")
    tiles, trouble = page.tiles(), told["trouble"]
    still = sum(trouble[each] for each in ("stalled", "stuck", "held"))
    assert tiles["Streams"] == f"{told['counts']['streams']:,}"
    assert tiles["Standing still"] == str(still)
    assert tiles["Ahead of the clock"] == str(trouble["ahead"]) == "1"
    assert tiles["Incomplete"] == str(trouble["incomplete"])
    assert tiles["Groups in backlog"] == str(told["counts"]["in_backlog"])
    said = ", ".join(f"{trouble[each]} {each}" for each in ("stalled", "stuck", "held", "ahead") if trouble[each])
    assert page.one("main")["data-title"] == f"⚠ {said} · Overview · Strandline"


def test_groups_agree_with_the_status(world: Served) -> None:
    told = {each["group"]: each for each in world.call("GET", "/v1/status?stream=stuck")["groups"]}
    for row in rows_of(world, "groups"):
        found = told[row["Reader group"]]
        assert row["Backlog"] == ("in backlog" if found["backlog"] else "behind its threshold"), row
        assert (row["Lag"], row["Readers"]) == (behind(found["lag_ms"]), str(found["readers"]))


@pytest.mark.parametrize("name", ["stuck", "stalled", "sealed", "incomplete", "held", "past", "future", "numbers"])
def test_a_streams_page_agrees_with_the_status(world: Served, status: dict[str, dict[str, Any]], name: str) -> None:
    page, found = world.page(f"/streams/{name}"), status[name]
    tiles, key = page.tiles(), found["keys"][""]
    assert page.one("span", "badge").text == found["state"]
    assert tiles["Writers"] == f"{sum(key['writers'].values()):,}"
    assert (tiles["Notes"], tiles["Late notes"]) == (f"{found['notes']:,}", f"{found['late_notes']:,}")
    assert tiles["Refused"] == str(sum(found["refusals"].values()))
    assert tiles["Incomplete marks"] == str(key["incomplete_marks"])
    assert Times().show(key["time"]) in page.by_id("holder").text or key["time"] is None
    if found["lag_ms"] is not None:
        number = behind(found["lag_ms"]).removesuffix(" ahead")
        assert f"{number} {'behind' if found['lag_ms'] >= 0 else 'ahead of the clock'}" in page.by_id("holder").text
    if key["excluded"]:
        assert f"it leaves out {', '.join(key['excluded'])}" in page.by_id("holder").text
    rows = rows_of(world, "writers", f"/streams/{name}")
    listed = {
        each["writer"]: each
        for each in world.call("GET", f"/v1/streams/{name}/writers?limit=1000")["writers"]
    }  # fmt: skip
    assert len(rows) == sum(key["writers"].values())
    for row in rows:
        if row["Writer"] in listed:
            state, shown = listed[row["Writer"]]["state"].replace("_", " "), row["State"]
            assert shown.startswith(state) or (shown.startswith("silent, ") and state in ("active", "joined"))


def test_numbers_agree_with_the_metrics(world: Served, status: dict[str, dict[str, Any]]) -> None:
    text = world.request("GET", "/metrics").text
    rows = {each["Stream"]: each for each in rows_of(world, "streams")}

    def metric(name: str, stream: str) -> float | None:
        found = re.search(rf'^{name}{{[^}}]*stream="{stream}"[^}}]*}} (\S+)$', text, re.MULTILINE)
        return None if found is None else float(found[1])

    lags = re.findall(
        r'^strandline_stream_watermark_lag_seconds{[^}]*stream="([^"]+)"[^}]*} (\S+)$', text, re.MULTILINE
    )
    assert len(lags) > MANY
    for name, seconds in lags:
        assert rows[name]["Lag"] == behind(round(float(seconds) * 1_000)), name
    assert metric("strandline_stream_notes_total", "stuck") == status["stuck"]["notes"]


def test_numbers_agree_with_the_command(world: Served) -> None:
    said = StringIO()
    with redirect_stdout(said):
        assert main(["overview", "--controller", world.listen()]) == 0
    rows = {each["Stream"]: each for each in rows_of(world, "streams")}
    lines = {line.split()[0]: line for line in said.getvalue().splitlines() if line.strip()}
    compared = 0
    for name, row in rows.items():
        if name in lines:
            assert row["Time"] in lines[name], name
            assert f" {row['Lag']} " in lines[name], name
            compared += 1
    assert compared > 40


def test_five_thousand_writers_are_paged_and_the_worst_come_first(world: Served) -> None:
    page = world.page("/streams/crowd?writers.rows=100")
    assert len(page.rows("writers")) == 100 and f"1–100 of {CROWD:,}" in page.by_id("writers").text
    assert "holds" in page.rows("writers")[0]["State"]


def test_the_worst_streams_come_first(world: Served) -> None:
    rows = world.page("/?streams.rows=10").rows("streams")
    worst = [(each["Groups"] != NOTHING, each["State"]) for each in rows][:6]
    assert worst == [(True, "stuck"), *[(False, "stalled")] * 4, (False, "stuck")]
