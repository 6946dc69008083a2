"""Notes over HTTP: what they bring about, and what refuses them."""

from typing import Any

import pytest

from controller.storage.load import ready_streams


@pytest.fixture
def database(store_url: str) -> str:
    return store_url


def settings(**changes: Any) -> dict[str, Any]:
    return {"segments": 3, "mark_interval_ms": 0, "max_ahead_ms": None, **changes}


def test_a_mark_has_the_least_time_and_the_greatest_offsets(controller: Any) -> None:
    # The seeds' aggregation (PDP-33, figure 5):
    #
    #     writer    time   segment 0   segment 1   segment 2
    #     a         100        10          40          —
    #     b         120        30          20          5
    #     mark      100        30          40          5
    controller.call("PUT", "/v1/streams/s", settings(min_writers=2), expect=201)
    assert controller.note("a", 100, {"0": 10, "1": 40})["marks"] == []

    (mark,) = controller.note("b", 120, {"0": 30, "1": 20, "2": 5})["marks"]

    assert (mark["seq"], mark["time"], mark["upper"], mark["cut"]) == (1, 100, 120, {"0": 30, "1": 40, "2": 5})
    assert mark["complete"] and mark["excluded"] == [] and mark["newest"] is None
    assert controller.marks() == [mark]


def test_the_answer_says_who_holds_time_back_where_no_mark_came(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", settings())
    controller.note("slow", 100, {"0": 1})
    controller.clock.now += 700

    answer = controller.note("fast", 200, {"0": 2})

    assert answer == {
        "late": False,
        "floor": 100,
        "marks": [],
        "held_by": {
            "writer": "slow",
            "state": "active",
            "time": 100,
            "last_heard_ms_ago": 700,
            "released_in_ms": 599_300,
        },
    }


def test_a_note_that_makes_a_mark_names_no_holder(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", settings())

    assert "held_by" not in controller.note("a", 100, {"0": 1})


def test_a_late_note_is_taken_and_told_its_floor(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", settings())
    controller.note("a", 100, {"0": 1})

    answer = controller.note("b", 50, {"0": 2})

    assert answer["late"] is True and answer["floor"] == 100


def test_a_note_below_the_floor_is_late_also_when_repeated(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", settings())
    controller.note("a", 100, {"0": 1})
    assert controller.call("PUT", "/v1/streams/s/writers/b")["floor"] == 100

    for _ in range(2):
        answer = controller.note("b", 50, {"0": 2})
        assert answer["late"] is True and answer["floor"] == 100


def test_registering_gives_a_rising_epoch_and_the_floor(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", settings())
    controller.note("a", 100, {"0": 1})

    first = controller.call("PUT", "/v1/streams/s/writers/b")
    second = controller.call("PUT", "/v1/streams/s/writers/b", {"keys": ["order_time"]})

    life = f"{controller.call('GET', '/v1/streams/s')['identity']}-1"
    assert first == {"epoch": 1, "floor": 100, "floors": {"": 100}, "life": life, "noted": {}}
    assert second == {"epoch": 2, "floor": None, "floors": {"order_time": None}, "life": life, "noted": {}}


def test_a_repeated_registration_keeps_its_epoch_over_a_restart(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", settings())
    first = controller.call("PUT", "/v1/streams/s/writers/a", {"registration": "once"})
    assert controller.call("PUT", "/v1/streams/s/writers/a", {"registration": "once"}) == first
    controller = start()
    assert controller.call("PUT", "/v1/streams/s/writers/a", {"registration": "once"}) == first
    assert [each["details"]["epoch"] for each in controller.told("registration")] == [1]
    assert controller.call("PUT", "/v1/streams/s/writers/a", {"registration": "twice"})["epoch"] == 2
    assert (
        controller.call("PUT", "/v1/streams/s/writers/a", {"registration": "/"}, expect=422)["code"] == "invalid_name"
    )


def test_notes_of_several_keys_are_marked_key_by_key(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", settings())
    body = {"writer": "a", "times": {"order": 100, "ship": 90}, "position": {"0": 7}, "newest": {"order": 105}}

    answer = controller.call("POST", "/v1/streams/s/notes", body)

    assert [(mark["key"], mark["time"], mark["newest"]) for mark in answer["marks"]] == [
        ("order", 100, 105),
        ("ship", 90, None),
    ]
    assert answer["floors"] == {"order": None, "ship": None}
    assert [mark["time"] for mark in controller.marks(key="ship")] == [90]


def test_answers_to_many_notes_tell_who_holds_time_after_all_of_them(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", settings())
    for writer in "ab":
        controller.note(writer, 100, {"0": 1})
    many = [{"writer": writer, "time": time, "position": {"0": 2}} for writer, time in (("a", 120), ("b", 130))]

    first, second = controller.call("POST", "/v1/streams/s/notes", {"notes": many})["results"]

    assert [each["time"] for each in second["marks"]] == [120] and "held_by" not in second
    assert first["held_by"]["writer"] == "a"  # it was b until b noted, in the same request


def test_each_of_many_notes_is_judged_after_those_before_it(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", settings())
    notes = [
        {"writer": "a", "time": 100, "position": {"0": 10}},
        {"writer": "a", "time": 90, "position": {"0": 11}},
        {"writer": 7, "time": 90, "position": {}},
        {"writer": "a", "time": 110, "position": {"9": 1}},
        {"writer": "a", "time": 120, "position": {"0": 12}},
    ]

    results = controller.call("POST", "/v1/streams/s/notes", {"notes": notes})["results"]

    assert [each.get("code", each.get("late")) for each in results] == [
        False,
        "time_went_back",
        "invalid_note",
        "unknown_segment",
        False,
    ]
    assert [mark["time"] for mark in controller.marks()] == [100, 120]


@pytest.mark.parametrize("path", ["/v1/streams/s/notes", "/v1/notes"])
def test_a_repeated_request_is_done_and_refuses_nothing(controller: Any, path: str) -> None:
    controller.call("PUT", "/v1/streams/s", settings())
    named = {"stream": "s"} if path == "/v1/notes" else {}
    notes = [
        {"writer": writer, "time": time, "position": {"0": time // 10}, **named}
        for time in (100, 110, 120)
        for writer in ("a", "b")
    ]
    first = controller.call("POST", path, {"notes": notes})["results"]
    marks = controller.marks()

    again = controller.call("POST", path, {"notes": [*notes, {**notes[0], "time": 130, "position": {"0": 13}}]})

    assert [each.get("code") for each in (*first, *again["results"])] == [None] * 13
    assert again["results"][0].keys() >= {"late", "floor", "marks"}
    assert controller.marks() == marks
    assert controller.told("refusal") == []
    alone = controller.call("POST", path, {"notes": notes[:1]})["results"]
    assert alone[0]["code"] == "time_went_back"


def test_a_clock_that_stepped_back_is_refused_within_a_request_and_alone(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", settings())
    controller.note("a", 100, {"0": 10})
    back = {"writer": "a", "time": 90, "position": {"0": 11}}
    onward = {"writer": "a", "time": 101, "position": {"0": 12}}

    results = controller.call("POST", "/v1/streams/s/notes", {"notes": [back, onward]})["results"]

    assert [each.get("code") for each in results] == ["time_went_back", None]
    assert [each["details"]["code"] for each in controller.told("refusal")] == ["time_went_back"]
    assert controller.call("POST", "/v1/streams/s/notes", back, expect=409)["code"] == "time_went_back"


def test_notes_of_several_streams_go_in_one_request(controller: Any) -> None:
    for stream in ("s", "t"):
        controller.call("PUT", f"/v1/streams/{stream}", settings())
    notes = [
        {"stream": "s", "writer": "a", "time": 1, "position": {}},
        {"stream": "t", "writer": "a", "times": {"k": 2}, "position": {}},
        {"stream": "nowhere", "writer": "a", "time": 3, "position": {}},
        {"writer": "a", "time": 3, "position": {}},
    ]

    results = controller.call("POST", "/v1/notes", {"notes": notes})["results"]

    assert [each.get("code") for each in results] == [None, None, "unknown_stream", "invalid_note"]
    assert results[1]["floors"] == {"k": None}
    assert [mark["time"] for mark in controller.marks("s")] == [1]


def test_the_streams_of_one_request_are_loaded_together(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = ["s", "t", "u"]
    before = start()
    for stream in streams:
        before.call("PUT", f"/v1/streams/{stream}", settings())
    read: list[list[str]] = []

    def counted(connection: Any, wanted: list[Any]) -> Any:
        read.append(sorted(name for name, _ in wanted))
        return ready_streams(connection, wanted)

    monkeypatch.setattr("controller.streams.loading.ready_streams", counted)
    notes = [{"stream": each, "writer": "a", "time": 1, "position": {}} for each in [*streams, "nowhere"]]

    results = start().call("POST", "/v1/notes", {"notes": notes})["results"]

    assert [each.get("code") for each in results] == [None, None, None, "unknown_stream"]
    assert read == [["nowhere", *streams]]


@pytest.mark.parametrize(
    ("note", "status", "code", "more"),
    [
        ({"time": 99, "position": {"0": 10}}, 409, "time_went_back", {"stored_time": 100}),
        ({"time": 101, "position": {"0": 9}}, 409, "position_went_back", {"segment": "0", "stored_offset": 10}),
        ({"time": 101, "position": {"0": 11}, "epoch": 7}, 409, "fenced", {"epoch": 7, "newest": None}),
        ({"time": 101, "position": {"x": 1}}, 422, "unknown_segment", {"segment": "x"}),
        ({"time": 1_700_000_010_001, "position": {"0": 11}}, 422, "time_too_far_ahead", {"max_ahead_ms": 10_000}),
    ],
)
def test_a_refusal_names_what_is_stored_and_changes_nothing(
    controller: Any, note: dict[str, Any], status: int, code: str, more: dict[str, Any]
) -> None:
    controller.call("PUT", "/v1/streams/s", settings(max_ahead_ms=10_000))
    controller.note("a", 100, {"0": 10})
    before = controller.call("GET", "/v1/streams/s/writers"), controller.marks()

    problem = controller.call("POST", "/v1/streams/s/notes", {"writer": "a", **note}, expect=status)

    assert problem["code"] == code and problem["status"] == status
    assert {name: problem[name] for name in more} == more
    assert (controller.call("GET", "/v1/streams/s/writers"), controller.marks()) == before


def test_an_unknown_stream_shows_the_call_that_creates_it(controller: Any) -> None:
    problem = controller.call("POST", "/v1/streams/s/notes", {"writer": "a", "time": 1, "position": {}}, expect=404)

    assert problem["code"] == "unknown_stream" and 'PUT /v1/streams/s {"segments": 1}' in problem["detail"]


def test_idle_closed_and_excluded_writers_no_longer_hold_time(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", settings())
    for number, writer in enumerate(("idle", "closed", "aside", "goes-on")):
        controller.note(writer, 100, {"0": number})
    controller.note("goes-on", 500, {"0": 10})

    controller.call("POST", "/v1/streams/s/writers/idle/idle")
    controller.call("DELETE", "/v1/streams/s/writers/closed")
    assert [mark["time"] for mark in controller.marks()] == [100]
    controller.call("POST", "/v1/streams/s/writers/aside/exclude")

    last = controller.marks()[-1]
    assert (last["time"], last["excluded"], last["complete"]) == (500, ["aside"], False)
    window = controller.call("POST", "/v1/streams/s/time-window", {"position": last["cut"]})
    assert (window["lower"], window["complete"]) == (500, False)
    states = {each["writer"]: each["state"] for each in controller.call("GET", "/v1/streams/s/writers")["writers"]}
    assert states == {"idle": "idle", "closed": "closed", "aside": "excluded", "goes-on": "active"}
    controller.call("DELETE", "/v1/streams/s/writers/aside/exclude")
    assert controller.call("GET", "/v1/streams/s")["held_by"][""]["writer"] == "aside"


def test_old_epochs_are_fenced_for_idle_and_close_too(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", settings())
    old = controller.call("PUT", "/v1/streams/s/writers/a")["epoch"]
    controller.call("PUT", "/v1/streams/s/writers/a")

    assert controller.call("POST", f"/v1/streams/s/writers/a/idle?epoch={old}", expect=409)["code"] == "fenced"
    assert controller.call("DELETE", f"/v1/streams/s/writers/a?epoch={old}", expect=409)["code"] == "fenced"
    assert controller.call("POST", "/v1/streams/s/writers/nobody/idle", expect=404)["code"] == "unknown_writer"


def test_every_answer_has_the_clock_and_a_request_id(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", settings())
    for path in ("/v1/streams/s", "/nowhere", "/healthz"):
        headers = controller.request("GET", path).headers
        assert headers["strandline-time"] == str(controller.clock.now) and headers["x-request-id"]
    answer = controller.request("POST", "/v1/streams/s/notes", content=b"{", headers={"x-request-id": "mine-1"})
    assert answer.headers["strandline-time"] and answer.headers["x-request-id"] == "mine-1"
