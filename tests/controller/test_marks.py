"""Marks and windows over HTTP: waited for, found by time, found in the store."""

from typing import Any

import pytest

from controller.http.routes import writers
from controller.streams import reads

pytestmark = pytest.mark.usefixtures("store_url")


CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None}


def test_marks_are_paged_by_seq_and_one_to_come_is_unknown(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    for time in (1, 2, 3):
        controller.note("a", time, {"0": time})

    assert [mark["seq"] for mark in controller.marks(after=1, limit=1)] == [2]
    assert controller.call("GET", "/v1/streams/s/marks?after=4", expect=422)["code"] == "unknown_seq"


def test_pages_of_many_offsets_are_short(controller: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "PAGE_OFFSETS", 5)
    monkeypatch.setattr(writers, "PAGE_OFFSETS", 6)
    controller.call("PUT", "/v1/streams/s", CONFIG)
    for writer, time in (("a", 1), ("b", 9), ("c", 9), ("a", 2), ("a", 3)):
        controller.note(writer, time, {"0": time, "1": time})

    assert [mark["seq"] for mark in controller.marks()] == [1, 2]
    assert [mark["seq"] for mark in controller.marks(after=2)] == [3]

    first = controller.call("GET", "/v1/streams/s/writers")
    rest = controller.call("GET", f"/v1/streams/s/writers?after={first['next']}")

    assert [[each["writer"] for each in page["writers"]] for page in (first, rest)] == [["a", "b"], ["c"]]
    assert rest["next"] is None


def test_marks_by_time_and_where_to_begin_to_read(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.note("a", 100, {"0": 10}, newest=120)
    controller.note("a", 200, {"0": 20}, newest=220)

    def at(time: int) -> tuple[Any, ...]:
        found = controller.call("GET", f"/v1/streams/s/marks/at?time={time}")
        floor, ceiling = found["floor"], found["ceiling"]
        return floor and floor["seq"], ceiling and ceiling["seq"], found["start"], found["exact"]

    assert at(99) == (None, 1, {}, True)
    assert at(100) == (1, 1, {"0": 10}, False)
    assert at(121) == (1, 2, {"0": 10}, True)
    assert at(200) == (2, 2, {"0": 10}, True)
    assert at(300) == (2, None, {"0": 20}, True)


def test_evaluating_on_demand_makes_the_mark_or_says_who_holds(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {**CONFIG, "mark_interval_ms": None})
    assert controller.call("POST", "/v1/streams/s/marks", {"key": ""})["held_by"]["state"] == "min_writers"
    controller.note("a", 100, {"0": 1})
    controller.note("b", 200, {"0": 2})

    made = controller.call("POST", "/v1/streams/s/marks")
    assert made["mark"]["time"] == 100 and made["held_by"]["writer"] == "a"
    again = controller.call("POST", "/v1/streams/s/marks", {"key": ""})
    assert again["mark"] is None and again["held_by"]["writer"] == "a"


def index(controller: Any, segment: str = "0", **query: Any) -> tuple[list[tuple[int, int]], int]:
    """Offsets and times within a segment. tests/time_index has the rules."""
    answer = controller.request("GET", f"/v1/streams/s/segments/{segment}/time-index", params=query)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return [(each["offset"], each["time"]) for each in found["entries"]], found["token"]


def test_windows_pages_and_time_indexes_of_old_marks_are_found_in_the_store(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    notes = [{"writer": "a", "time": 10 * n, "position": {"0": 10 * n, "1": n}} for n in range(1, 1001)]
    controller.call("POST", "/v1/streams/s/notes", {"notes": notes})
    positions = [(offset, offset // 10) for offset in (0, 5, 10, 15, 4_321, 7_440, 7_450, 9_990, 10_000, 10_001)]
    asked: list[dict[str, Any]] = [{"from_offset": offset} for offset in (0, 5, 10, 1_234, 7_440, 7_450, 9_999, 20_000)]
    asked += [{"token": token} for token in (0, 1, 500, 743, 744, 745, 1000)]
    asked += [{"segment": "1", "from_offset": offset} for offset in (0, 1, 744, 1000)]

    def window(first: int, second: int) -> Any:
        return controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": first, "1": second}})

    def all_of_it() -> list[Any]:
        windows = [window(*position) for position in (*positions, (25, 70))]
        return windows + [index(controller, **{"limit": 7, **each}) for each in asked]

    in_memory = all_of_it()
    assert [each["mark_seq"] for each in in_memory[:10]] == [min(passed, 1000) or None for _, passed in positions]
    assert (in_memory[10]["lower"], in_memory[10]["upper"]) == (20, 700)

    controller = start()  # which has but the newest in memory

    assert all_of_it() == in_memory
    assert [mark["seq"] for mark in controller.marks(after=3, limit=5)] == [4, 5, 6, 7, 8]
    assert controller.call("GET", "/v1/streams/s/marks/at?time=105")["floor"]["seq"] == 10
    entries: list[tuple[int, int]] = []
    token = 0
    while page := (found := index(controller, token=token, limit=300))[0]:
        entries, token = entries + page, found[1]
    assert entries == [(10 * n, 10 * n) for n in range(1, 1001)]
    assert index(controller, token=1000) == ([], 1000) and index(controller, key="other") == ([], 0)


def test_the_interval_delays_a_mark_and_time_alone_makes_it(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {**CONFIG, "mark_interval_ms": 1000})
    controller.note("a", 100, {"0": 1})
    assert controller.note("a", 200, {"0": 2})["marks"] == []
    waiting = controller.request_soon("GET", "/v1/streams/s/marks?after=1&wait_ms=30000")

    controller.pass_time(1000)

    assert [mark["time"] for mark in waiting.result(60).json()["marks"]] == [200]


def test_silence_does_not_count_while_nobody_served(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", {**CONFIG, "writer_timeout_ms": 60_000})
    controller.note("silent", 100, {"0": 1})
    controller.note("alive", 500, {"0": 2})
    controller.pass_time(50_000)
    controller.note("alive", 600, {"0": 3})

    for _ in range(3):  # nobody asks for the stream in between
        controller = start(after_ms=3_600_000)

    controller.pass_time(9_000)
    assert [mark["time"] for mark in controller.marks()] == [100]
    controller.pass_time(1_000)
    assert [(mark["time"], mark["excluded"]) for mark in controller.marks()] == [(100, []), (600, ["silent"])]


def test_the_clock_never_steps_back_over_a_restart(start: Any, clock: Any) -> None:
    before = int(start().request("GET", "/healthz").headers["strandline-time"])
    clock.now -= 1_000_000

    assert int(start().request("GET", "/healthz").headers["strandline-time"]) >= before


@pytest.mark.one_controller
def test_waiting_readers_are_answered_when_the_controller_stops(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    waiting = controller.request_soon("GET", "/v1/streams/s/marks?wait_ms=30000")

    controller.portal.call(controller.app.state.controller.begin_stop)

    assert waiting.result(60).json()["marks"] == []
    assert controller.call("GET", "/readyz", expect=503)["code"] == "store_unavailable"
    assert controller.call("GET", "/healthz") == {"status": "ok"}


def test_truncating_prunes_marks_below_the_head_except_the_newest(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    notes = [{"writer": "a", "time": 10 * n, "position": {"0": 10 * n}} for n in range(1, 601)]
    controller.call("POST", "/v1/streams/s/notes", {"notes": notes})
    controller = start()  # which has but the newest in memory

    assert controller.call("POST", "/v1/streams/s/truncate", {"head": {"0": 55}}) == {"head": {"0": 55}}
    assert [mark["seq"] for mark in controller.marks(limit=2)] == [5, 6]
    assert controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 49}})["lower"] is None
    assert controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 60}})["lower"] == 60

    controller.call("POST", "/v1/streams/s/truncate", {"head": {"0": 5_805}})
    assert controller.call("POST", "/v1/streams/s/truncate", {"head": {"0": 3}}) == {"head": {"0": 5_805}}
    assert [mark["seq"] for mark in controller.marks(limit=2)] == [580, 581]
    assert [mark["seq"] for mark in start().marks()] == list(range(580, 601))


@pytest.mark.one_controller
def test_a_stream_has_no_end_before_its_last_marks_are_durable(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {**CONFIG, "min_writers": 2})
    controller.note("a", 100, {"0": 5})
    streams = controller.app.state.controller.streams
    controller.portal.call(
        streams.find_loaded("s").stream.seal, {}, controller.clock.now
    )  # applied, and not yet written

    def end() -> tuple[bool, bool]:
        window = controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 5}})
        return controller.call("GET", "/v1/streams/s")["sealed"], window["end_of_stream"]

    assert end() == (False, False)
    waiting = controller.request_soon("GET", "/v1/streams/s/marks?wait_ms=30000")
    assert controller.request("GET", "/v1/streams/s/marks?wait_ms=1").json()["marks"] == []
    assert not waiting.done()

    controller.pass_time(0)
    controller.portal.call(streams.change, "s", lambda stream, now: None)
    controller.pass_time(0)

    assert [mark["time"] for mark in waiting.result(60).json()["marks"]] == [100]
    assert end() == (True, True)
