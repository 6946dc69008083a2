"""Reader groups change: settings, streams that come and go, inputs that have ended. On both stores, over restarts."""

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


@pytest.fixture
def group(controller: Any) -> Any:
    """A group that has read the streams s and t, up to 100 and 200."""
    stream(controller, "s", 100)
    stream(controller, "t", 200)
    controller.call("PUT", GROUP, {"streams": ["s", "t"]})
    read(controller, "s", "t")
    return controller


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


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"streams": []}, "streams"),
        ({"reader_timeout_ms": 0}, "reader_timeout_ms"),
        ({"on_all_idle": "leap"}, "on_all_idle"),
        ({"start": {"time": 5}}, "start"),
        ({"streams": ["s", "t", "u"], "start": {"positions": {"mistyped": {"0": 1}}}}, "start"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_and_changes_nothing(
    group: Any, changes: dict[str, Any], named: str
) -> None:
    before = group.call("GET", GROUP)
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
    assert window(controller)["watermarks"] == {"": 100}
    controller.note("a", 300, {"0": 2}, "s")
    controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 2}, "t": {"0": 2}}})
    assert window(controller)["watermarks"] == {"": 150}
    controller.note("a", 400, {"0": 3}, "t")
    controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 2}, "t": {"0": 3}}})
    assert window(controller)["watermarks"] == {"": 300}


def test_a_stream_that_joins_begins_where_it_is_told_to(group: Any) -> None:
    stream(group, "u", 500)
    group.call("PATCH", GROUP, {"streams": ["s", "t", "u"], "start": {"positions": {"u": {"0": 1}}}})
    found = window(group)
    assert found["streams"]["u"]["position"] == {"0": 1} and found["watermarks"] == {"": 100}


def test_a_removed_stream_holds_nothing_and_starts_over_when_readded(start: Any) -> None:
    controller = start()
    stream(controller, "s", 100)
    stream(controller, "t", 200)
    controller.call("PUT", GROUP, {"streams": ["s", "t"]})
    read(controller, "s", "t")
    controller.call("PATCH", GROUP, {"streams": ["t"]})
    found = window(controller)
    assert (found["watermarks"], list(found["streams"])) == ({"": 200}, ["t"])
    problem = controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 1}}, "epoch": 1}, expect=422)
    assert (problem["name"], problem["value"]) == ("positions", "s")
    controller = start()
    assert controller.call("GET", GROUP)["readers"][0]["owned"] == {"t": {"0": 1}}
    controller.call("PATCH", GROUP, {"streams": ["t", "s"]})
    assert window(controller)["streams"]["s"]["position"] == {}
    assert window(controller)["watermarks"] == {"": 200}


@pytest.mark.parametrize("made_again", [False, True])
def test_a_stream_that_is_gone_can_be_removed_and_nothing_else_is_lost(group: Any, made_again: bool) -> None:
    group.call("DELETE", "/v1/streams/s")
    if made_again:
        stream(group, "s", 900)
    group.call("PATCH", GROUP, {"reader_timeout_ms": 5_000})
    group.call("PATCH", GROUP, {"streams": ["t"]})
    found = window(group)
    assert (found["watermarks"], found["streams"]["t"]["position"]) == ({"": 200}, {"0": 1})


def test_all_idle_the_watermark_jumps_where_that_is_asked_for(group: Any) -> None:
    for name in ("s", "t"):
        group.call("POST", f"/v1/streams/{name}/writers/a/idle")
    group.call("PUT", "/v1/reader-groups/holds", {"streams": ["s", "t"]})
    group.call("PUT", "/v1/reader-groups/holds/readers/r", {"positions": {"s": {"0": 1}, "t": {"0": 1}}})

    group.call("PATCH", GROUP, {"on_all_idle": "jump"})

    assert window(group)["watermarks"] == {"": 200}
    holds = group.call("GET", "/v1/reader-groups/holds/time-window")
    assert (holds["watermarks"], holds["held_by"]) == ({"": 100}, {"": None})
