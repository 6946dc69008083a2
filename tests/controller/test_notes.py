"""Notes over HTTP: what they bring about, and what refuses them."""

from typing import Any

import pytest

from strandline.core.forgetting import GONE_KEPT_MS

pytestmark = pytest.mark.usefixtures("store_url")


STREAM = "/v1/streams/s"
NOTES, WRITERS = f"{STREAM}/notes", f"{STREAM}/writers"


def settings(**changes: Any) -> dict[str, Any]:
    return {"segments": 3, "mark_interval_ms": 0, "max_ahead_ms": None, **changes}


@pytest.fixture
def stream(controller: Any) -> Any:
    """A controller with a stream."""
    controller.call("PUT", STREAM, settings())
    return controller


def test_answers_say_how_late_a_note_is_or_will_be_and_who_holds_time_back(stream: Any) -> None:
    assert "held_by" not in stream.note("slow", 100, {"0": 1})
    stream.clock.now += 700
    holder = {"writer": "slow", "state": "active", "time": 100, "last_heard_ms_ago": 700, "released_in_ms": 599_300}
    assert stream.note("fast", 200, {"0": 2}) == {"late": False, "floor": 100, "marks": [], "held_by": holder}
    answer = stream.note("late", 50, {"0": 2})
    assert answer["late"] is True and answer["floor"] == 100

    life = f"{stream.call('GET', STREAM)['identity']}-1"
    first = stream.call("PUT", f"{WRITERS}/b")
    assert first == {"epoch": 1, "floor": 100, "floors": {"": 100}, "life": life, "noted": {}}
    for _ in range(2):  # also when it is repeated
        answer = stream.note("b", 50, {"0": 2})
        assert answer["late"] is True and answer["floor"] == 100
    second = stream.call("PUT", f"{WRITERS}/c", {"keys": ["order_time"]})
    assert (second["epoch"], second["floor"], second["floors"]) == (2, None, {"order_time": None})
    stream.call("PUT", f"{WRITERS}/b")
    assert stream.call("POST", f"{WRITERS}/b/idle?epoch=1", expect=409)["code"] == "fenced"
    assert stream.call("DELETE", f"{WRITERS}/b?epoch=1", expect=409)["code"] == "fenced"
    assert stream.call("POST", f"{WRITERS}/nobody/idle", expect=404)["code"] == "unknown_writer"


def test_a_repeated_registration_keeps_its_epoch_over_a_restart(start: Any) -> None:
    controller = start()
    controller.call("PUT", STREAM, settings())
    first = controller.call("PUT", f"{WRITERS}/a", {"registration": "once"})
    assert controller.call("PUT", f"{WRITERS}/a", {"registration": "once"}) == first
    controller = start()
    assert controller.call("PUT", f"{WRITERS}/a", {"registration": "once"}) == first
    assert [each["details"]["epoch"] for each in controller.told("registration")] == [1]
    assert controller.call("PUT", f"{WRITERS}/a", {"registration": "twice"})["epoch"] == 2
    assert controller.call("PUT", f"{WRITERS}/a", {"registration": "/"}, expect=422)["code"] == "invalid_name"


def test_each_of_many_notes_is_judged_after_those_before_it(stream: Any) -> None:
    for writer in "ab":
        stream.note(writer, 100, {"0": 1})
    notes = [
        {"writer": "a", "time": 120, "position": {"0": 2}},
        {"writer": "b", "time": 130, "position": {"0": 2}},
        {"writer": "a", "time": 90, "position": {"0": 11}},
        {"writer": 7, "time": 90, "position": {}},
        {"writer": "a", "time": 125, "position": {"9": 1}},
        {"writer": "a", "time": 126, "position": {"0": 12}},
    ]

    results = stream.call("POST", NOTES, {"notes": notes})["results"]

    codes = [each.get("code", each.get("late")) for each in results]
    assert codes == [False, False, "time_went_back", "invalid_note", "unknown_segment", False]
    assert [mark["time"] for mark in stream.marks()] == [100, 120, 126]
    assert results[0]["held_by"]["writer"] == "a"  # after all of them; it was b until b noted
    assert [each["time"] for each in results[1]["marks"]] == [120] and "held_by" not in results[1]
    assert stream.told("refusal")[0]["details"]["code"] == "time_went_back"


@pytest.mark.parametrize("path", [NOTES, "/v1/notes"])
def test_a_repeated_request_is_done_and_refuses_nothing(stream: Any, path: str) -> None:
    named = {"stream": "s"} if path == "/v1/notes" else {}
    notes = [
        {"writer": writer, "time": time, "position": {"0": offset}, **named}
        for time, offset in ((100, 10), (110, 11), (120, 12), (120, 13))
        for writer in ("a", "b")
    ]
    first = stream.call("POST", path, {"notes": notes})["results"]
    marks = stream.marks()

    again = stream.call("POST", path, {"notes": [*notes, {**notes[0], "time": 130, "position": {"0": 14}}]})

    assert [each.get("code") for each in (*first, *again["results"])] == [None] * 17
    assert again["results"][0].keys() >= {"late", "floor", "marks"}
    assert stream.marks() == marks
    assert stream.told("refusal") == []
    alone = stream.call("POST", path, {"notes": notes[:1]})["results"]
    assert alone[0]["code"] == "time_went_back"


def test_notes_of_several_keys_are_marked_key_by_key_and_of_several_streams_go_in_one_request(
    stream: Any,
) -> None:
    body = {"writer": "a", "times": {"order": 100, "ship": 90}, "position": {"0": 7}, "newest": {"order": 105}}
    answer = stream.call("POST", NOTES, body)
    marks = [(mark["key"], mark["time"], mark["newest"]) for mark in answer["marks"]]
    assert marks == [("order", 100, 105), ("ship", 90, None)]
    assert answer["floors"] == {"order": None, "ship": None}
    assert [mark["time"] for mark in stream.marks(key="ship")] == [90]

    stream.call("PUT", "/v1/streams/t", settings())
    notes = [
        {"stream": "s", "writer": "b", "time": 1, "position": {}},
        {"stream": "t", "writer": "a", "times": {"k": 2}, "position": {}},
        {"stream": "nowhere", "writer": "a", "time": 3, "position": {}},
        {"writer": "a", "time": 3, "position": {}},
    ]
    results = stream.call("POST", "/v1/notes", {"notes": notes})["results"]
    assert [each.get("code") for each in results] == [None, None, "unknown_stream", "invalid_note"]
    assert results[1]["floors"] == {"k": None}
    assert [mark["time"] for mark in stream.marks("s")] == [1]


REFUSED: tuple[tuple[dict[str, Any], int, str, dict[str, Any]], ...] = (
    ({"time": 99, "position": {"0": 10}}, 409, "time_went_back", {"stored_time": 100}),
    ({"time": 101, "position": {"0": 9}}, 409, "position_went_back", {"segment": "0", "stored_offset": 10}),
    ({"time": 101, "position": {"0": 11}, "epoch": 7}, 409, "fenced", {"epoch": 7, "newest": None}),
    ({"time": 101, "position": {"x": 1}}, 422, "unknown_segment", {"segment": "x"}),
    ({"time": 1_700_000_010_001, "position": {"0": 11}}, 422, "time_too_far_ahead", {"max_ahead_ms": 10_000}),
)


def test_a_refusal_names_what_is_stored_or_what_to_do_and_changes_nothing(controller: Any) -> None:
    problem = controller.call("POST", NOTES, {"writer": "a", "time": 1, "position": {}}, expect=404)
    assert problem["code"] == "unknown_stream" and 'PUT /v1/streams/s {"segments": 1}' in problem["detail"]
    controller.call("PUT", STREAM, settings(max_ahead_ms=10_000))
    controller.note("a", 100, {"0": 10})
    before = controller.call("GET", WRITERS), controller.marks()
    for note, status, code, more in REFUSED:
        problem = controller.call("POST", NOTES, {"writer": "a", **note}, expect=status)

        assert (problem["code"], problem["status"]) == (code, status) and problem.items() >= more.items()
        assert (controller.call("GET", WRITERS), controller.marks()) == before


def test_idle_closed_and_excluded_writers_no_longer_hold_time(stream: Any) -> None:
    for number, writer in enumerate(("idle", "closed", "aside", "goes-on")):
        stream.note(writer, 100, {"0": number})
    stream.note("goes-on", 500, {"0": 10})

    stream.call("POST", f"{WRITERS}/idle/idle")
    stream.call("DELETE", f"{WRITERS}/closed")
    assert [mark["time"] for mark in stream.marks()] == [100]
    stream.call("POST", f"{WRITERS}/aside/exclude")

    last = stream.marks()[-1]
    assert (last["time"], last["excluded"], last["complete"]) == (500, ["aside"], False)
    window = stream.call("POST", f"{STREAM}/time-window", {"position": last["cut"]})
    assert (window["lower"], window["complete"]) == (500, False)
    states = {each["writer"]: each["state"] for each in stream.call("GET", WRITERS)["writers"]}
    assert states == {"idle": "idle", "closed": "closed", "aside": "excluded", "goes-on": "active"}
    stream.call("DELETE", f"{WRITERS}/aside/exclude")
    assert stream.call("GET", STREAM)["held_by"][""]["writer"] == "aside"


def known(controller: Any) -> list[str]:
    """Who is known in the end: the next call that changes a stream forgets whom it may."""
    controller.pass_time(GONE_KEPT_MS)
    controller.call("POST", f"{STREAM}/marks", {})
    return [each["writer"] for each in controller.call("GET", WRITERS)["writers"]]


@pytest.mark.one_controller
def test_a_writer_beyond_max_writers_is_refused_with_the_setting(controller: Any) -> None:
    created = controller.call("PUT", STREAM, settings(writer_timeout_ms=None, max_writers=2))
    assert created["max_writers"] == 2
    controller.note("a", 1, {"0": 1})
    controller.note("b", 1, {"0": 1})

    told = controller.call("PUT", f"{WRITERS}/c", expect=422)
    noted = controller.call("POST", NOTES, {"writer": "c", "time": 2, "position": {"0": 2}}, expect=422)
    both = [{"writer": name, "time": 2, "position": {"0": 2}} for name in ("c", "a")]
    batch = controller.call("POST", NOTES, {"notes": both})["results"]

    for problem in (told, noted, batch[0]):
        assert (problem["code"], problem["count"], problem["limit"]) == ("too_many", 3, 2)
        assert problem["setting"] == "max_writers"
        said = "3 writers in a stream are more than the limit of 2, which the stream's max_writers sets"
        assert said in problem["detail"]
    assert "code" not in batch[1]
    assert known(controller) == ["a", "b"]
    controller.call("PATCH", STREAM, {"max_writers": 3})
    controller.call("PUT", f"{WRITERS}/c")
    assert known(controller) == ["a", "b", "c"]
