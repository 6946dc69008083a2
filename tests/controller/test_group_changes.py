"""Reader groups change: settings, streams that come and go, inputs that rest or have ended. On both stores, over
restarts: one watermark over several streams never goes back, but after `offline`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.served import NOON

pytestmark = pytest.mark.usefixtures("store_url")


CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": None}
GROUP = "/v1/reader-groups/g"


def stream(controller: Any, name: str, time: int, **settings: object) -> None:
    """A stream whose writer has noted a time at offset 1."""
    controller.call("PUT", f"/v1/streams/{name}", {**CONFIG, **settings})
    controller.note("a", time, {"0": 1}, name)


def read(controller: Any, *streams: str) -> None:
    """A reader of the group has read these streams up to offset 1."""
    controller.call("PUT", f"{GROUP}/readers/r", {"positions": {name: {"0": 1} for name in streams}})


def window(controller: Any) -> Any:
    return controller.call("GET", f"{GROUP}/time-window")


def watermark(controller: Any) -> int | None:
    found: int | None = window(controller)["watermarks"][""]
    return found


def idle(controller: Any, name: str) -> None:
    controller.call("POST", f"/v1/streams/{name}/writers/a/idle")


def with_group(controller: Any) -> Any:
    """A group that has read the streams s and t, up to 100 and 200."""
    stream(controller, "s", 100)
    stream(controller, "t", 200)
    controller.call("PUT", GROUP, {"streams": ["s", "t"]})
    read(controller, "s", "t")
    return controller


@pytest.fixture
def group(controller: Any) -> Any:
    return with_group(controller)


# -- inputs that rest --------------------------------------------------------------------------------------------------


def test_a_stream_waking_with_an_older_time_moves_nothing_back(start: Any) -> None:
    controller = with_group(start())
    idle(controller, "s")
    assert watermark(controller) == 200

    controller.note("a", 150, {"0": 2}, "s")
    assert watermark(controller) == 200
    controller = start()
    assert watermark(controller) == 200

    controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 2}}, "epoch": 1})
    controller.note("a", 300, {"0": 2}, "t")
    controller.note("a", 300, {"0": 2}, "s")
    controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 2}, "t": {"0": 2}}, "epoch": 1})
    assert watermark(controller) == 300


def note_on_s(controller: Any, time: int, offset: int) -> tuple[bool, int | None]:
    answer = controller.note("a", time, {"0": offset}, "s")
    return answer["late"], answer.get("floor")


def test_a_writer_that_comes_back_is_told_how_far_the_group_went_without_it(start: Any) -> None:
    controller = with_group(start())
    idle(controller, "s")
    assert watermark(controller) == 200
    controller = start()  # what readers know, the writer is told after a restart too

    assert controller.call("PUT", "/v1/streams/s/writers/new")["floor"] == 200
    told = [note_on_s(controller, time, offset) for time, offset in ((150, 2), (200, 3), (250, 4))]
    assert told == [(True, 200), (False, 200), (False, None)]
    assert controller.note("a", 201, {"0": 2}, "t")["late"] is False


def test_a_stream_that_counts_is_not_told_where_the_group_stands(group: Any) -> None:
    group.note("a", 300, {"0": 2}, "t")
    assert watermark(group) == 100
    idle(group, "t")  # which the group has not read to its end
    assert watermark(group) == 100
    assert note_on_s(group, 150, 2) == (False, None)
    assert group.call("PUT", "/v1/streams/t/writers/new")["floor"] == 300


# -- inputs that have ended ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("writer", ["closed", "excluded", "timed out", "none"])
def test_a_stream_that_was_read_to_its_end_holds_nothing(controller: Any, writer: str) -> None:
    stream(controller, "t", 200)
    controller.call("PUT", "/v1/streams/s", {**CONFIG, "writer_timeout_ms": 1_000 if writer == "timed out" else None})
    if writer != "none":
        controller.note("a", 100, {"0": 1}, "s")
    if writer == "excluded":
        controller.call("POST", "/v1/streams/s/writers/a/exclude")
    if writer == "timed out":
        controller.clock.now = NOON + 5_000
    controller.call("PUT", GROUP, {"streams": ["s", "t"]})
    read(controller, "t")
    controller.call("POST", "/v1/streams/s/seal")
    if writer != "none":
        assert window(controller)["watermarks"] == {"": None}
        read(controller, "s", "t")

    found = window(controller)

    assert (found["watermarks"], found["idle"], found["held_by"]) == ({"": 200}, ["s"], {"": "t"})
    assert found["streams"]["s"]["end_of_stream"]


# -- settings ------------------------------------------------------------------------------------------------------


def test_settings_change_and_stay_changed_over_a_restart(start: Any) -> None:
    controller = start()
    stream(controller, "s", 100)
    controller.call("PUT", GROUP, {"streams": ["s"]})
    changes = {
        "backlog_threshold_ms": 5_000,
        "reader_timeout_ms": None,
        "idle_timeout_ms": 7_000,
        "on_all_idle": "jump",
    }
    assert changes.items() <= controller.call("PATCH", GROUP, changes).items()
    assert window(controller)["backlog"]
    [told] = [each for each in controller.told("action", path=GROUP) if each["kind"] == "configured"]
    assert told["details"] == changes
    controller = start()
    assert changes.items() <= controller.call("GET", GROUP).items()
    assert window(controller)["backlog"]


SENSELESS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"streams": []}, "streams"),
    ({"reader_timeout_ms": 0}, "reader_timeout_ms"),
    ({"on_all_idle": "leap"}, "on_all_idle"),
    ({"start": {"time": 5}}, "start"),
    ({"streams": ["s", "t", "u"], "start": {"positions": {"mistyped": {"0": 1}}}}, "start"),
)


def test_a_change_that_makes_no_sense_is_refused_and_changes_nothing(group: Any) -> None:
    before = group.call("GET", GROUP)
    for changes, named in SENSELESS:
        problem = group.call("PATCH", GROUP, changes, expect=422)
        assert problem["code"] == "invalid_config" and problem["name"] == named
        assert group.call("GET", GROUP) == before


def test_creating_it_again_with_other_settings_is_a_conflict(group: Any) -> None:
    group.call("PUT", GROUP, {"streams": ["t", "s"]}, expect=200)

    problem = group.call("PUT", GROUP, {"streams": ["s"], "backlog_threshold_ms": 5}, expect=409)

    assert problem["code"] == "group_exists" and problem["differs"] == ["streams", "backlog_threshold_ms"]
    assert group.call("GET", GROUP)["streams"] == ["s", "t"]
    group.call("PATCH", GROUP, {"backlog_threshold_ms": 5})
    group.call("PUT", GROUP, {"streams": ["s", "t"], "backlog_threshold_ms": 5}, expect=200)


# -- streams that come and go --------------------------------------------------------------------------------------


def test_an_added_stream_counts_from_its_start_without_decrease(start: Any) -> None:
    #   s        100            300
    #   t    joins, unread      150   400
    #   told     100  100       150   300
    controller = start()
    stream(controller, "s", 100)
    controller.call("PUT", GROUP, {"streams": ["s"]})
    read(controller, "s")
    stream(controller, "t", 50)
    controller.note("a", 150, {"0": 2}, "t")
    controller.call("PATCH", GROUP, {"streams": ["s", "t"]})
    found = window(controller)
    assert (found["watermarks"], found["held_by"]) == ({"": 100}, {"": "t"})
    controller = start()
    assert watermark(controller) == 100
    controller.note("a", 300, {"0": 2}, "s")
    controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 2}, "t": {"0": 2}}})
    assert watermark(controller) == 150
    controller.note("a", 400, {"0": 3}, "t")
    controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 2}, "t": {"0": 3}}})
    assert watermark(controller) == 300
    stream(controller, "u", 500)
    controller.call("PATCH", GROUP, {"streams": ["s", "t", "u"], "start": {"positions": {"u": {"0": 1}}}})
    assert window(controller)["streams"]["u"]["position"] == {"0": 1} and watermark(controller) == 300


def test_a_removed_stream_holds_nothing_and_starts_over_when_readded(start: Any) -> None:
    controller = with_group(start())
    controller.call("PATCH", GROUP, {"streams": ["t"]})
    found = window(controller)
    assert (found["watermarks"], list(found["streams"])) == ({"": 200}, ["t"])
    problem = controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 1}}, "epoch": 1}, expect=422)
    assert (problem["name"], problem["value"]) == ("positions", "s")
    controller = start()
    assert controller.call("GET", GROUP)["readers"][0]["owned"] == {"t": {"0": 1}}
    controller.call("PATCH", GROUP, {"streams": ["t", "s"]})
    assert window(controller)["streams"]["s"]["position"] == {}
    assert watermark(controller) == 200


def test_all_idle_the_watermark_jumps_where_that_is_asked_for(group: Any) -> None:
    for name in ("s", "t"):
        idle(group, name)
    group.call("PUT", "/v1/reader-groups/holds", {"streams": ["s", "t"]})
    group.call("PUT", "/v1/reader-groups/holds/readers/r", {"positions": {"s": {"0": 1}, "t": {"0": 1}}})

    group.call("PATCH", GROUP, {"on_all_idle": "jump"})

    assert watermark(group) == 200
    holds = group.call("GET", "/v1/reader-groups/holds/time-window")
    assert (holds["watermarks"], holds["held_by"]) == ({"": 100}, {"": None})
