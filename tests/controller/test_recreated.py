"""A stream that is deleted and created again under its name: nothing that was told of the earlier one counts for it."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("store_url")


CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
STREAM, GROUP = "/v1/streams/s", "/v1/reader-groups/g"


def create(controller: Any, marks: int = 3) -> str:
    """Creates the stream with marks at 10, 20 and so on, at offsets 1, 2 and so on; returns its identity."""
    controller.call("PUT", STREAM, CONFIG, expect=201)
    for n in range(1, marks + 1):
        controller.note("w", 10 * n, {"0": n})
    identity: str = controller.call("GET", STREAM)["identity"]
    return identity


def recreate(controller: Any) -> str:
    controller.call("DELETE", STREAM)
    return create(controller)


def test_marks_and_windows_say_of_which_stream_they_are_and_one_of_the_earlier_stream_is_refused(
    controller: Any,
) -> None:
    first = create(controller)
    second = recreate(controller)
    assert first != second
    window = controller.call("POST", f"{STREAM}/time-window", {"position": {"0": 2}, "identity": second})
    assert (window["lower"], window["identity"]) == (20, second)
    assert controller.call("GET", f"{STREAM}/marks")["identity"] == second
    asked = {"position": {"0": 2}, "identity": first}
    refused = controller.call("POST", f"{STREAM}/time-window", asked, expect=409)
    assert (refused["code"], refused["identity"], refused["present"]) == ("stream_recreated", first, second)


def test_a_writers_epoch_is_given_out_once_whatever_becomes_of_its_stream(start: Any) -> None:
    controller = start()
    create(controller)
    epochs = [controller.call("PUT", f"{STREAM}/writers/w")["epoch"] for _ in range(3)]
    recreate(controller)
    controller = start()
    epochs.append(controller.call("PUT", f"{STREAM}/writers/w")["epoch"])
    recreate(controller)
    epochs.append(controller.call("PUT", f"{STREAM}/writers/w")["epoch"])
    assert epochs == [1, 2, 3, 4, 5]
    note = {"writer": "w", "time": 100, "position": {"0": 9}}
    assert controller.call("POST", f"{STREAM}/notes", {**note, "epoch": 4}, expect=409)["code"] == "fenced"
    controller.call("POST", f"{STREAM}/notes", {**note, "epoch": 5})


def test_a_group_that_read_the_earlier_stream_is_refused_until_it_is_created_again(start: Any) -> None:
    controller = start()
    create(controller)
    controller.call("PUT", GROUP, {"streams": ["s"]})
    epoch = controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 2}}})["epoch"]
    recreate(controller)
    for _ in range(2):
        for method, path, body in (
            ("GET", f"{GROUP}/time-window", None),
            ("GET", f"{GROUP}/lag", None),
            ("PUT", f"{GROUP}/readers/r", {"positions": {"s": {"0": 3}}, "epoch": epoch}),
            ("PUT", f"{GROUP}/readers/q", {}),
            ("POST", f"{GROUP}/readers/r/acquire", {"epoch": epoch, "max": 1}),
        ):
            refused = controller.call(method, path, body, expect=409)
            assert (refused["code"], refused["stream"], refused["group"]) == ("stream_recreated", "s", "g")
            assert "delete the group and create it again" in refused["detail"]
        controller = start()  # the identity is stored
    controller.call("DELETE", GROUP)
    controller.call("PUT", "/v1/streams/t", CONFIG)
    controller.call("PUT", GROUP, {"streams": ["t"]})
    recreate(controller)
    controller.call("PATCH", GROUP, {"streams": ["s"]})  # the one that it takes up is the present one
    assert controller.call("GET", f"{GROUP}/time-window")["streams"]["s"]["position"] == {}
    registered = controller.call("PUT", f"{GROUP}/readers/q", {"positions": {"s": {"0": 2}}})
    assert registered["window"]["watermarks"] == {"": 20}


@pytest.mark.parametrize("again", [False, True])
def test_a_group_of_a_deleted_stream_is_named_and_keeps_what_it_read_of_the_others(start: Any, again: bool) -> None:
    controller = start()
    create(controller)
    controller.call("PUT", "/v1/streams/t", CONFIG)
    for group, streams in (("g", ["s", "t"]), ("only", ["s"])):
        controller.call("PUT", f"/v1/reader-groups/{group}", {"streams": streams})
    read = {"s": {"0": 2}, "t": {"0": 7}}
    epoch = controller.call("PUT", f"{GROUP}/readers/r", {"positions": read})["epoch"]
    controller.call("DELETE", STREAM)
    code, status = "unknown_stream", 404
    if again:
        create(controller)
        code, status = "stream_recreated", 409
    report = {"positions": {"t": {"0": 8}}, "epoch": epoch}
    refused = controller.call("PUT", f"{GROUP}/readers/r", report, expect=status)
    assert (refused["code"], refused["stream"], refused["group"]) == (code, "s", "g")
    assert "out of the group's streams" in refused["detail"]
    controller.app.state.controller.status.forget()
    assert controller.call("GET", "/v1/status?group=g")["unread_groups"] == {"g": code}

    create_again = [] if again else [create]
    controller.call("PATCH", GROUP, {"reader_timeout_ms": 5_000})
    for streams, position in ((["t"], {"0": 7}), (["s", "t"], {"0": 8})):
        controller.call("PATCH", GROUP, {"streams": streams})
        assert controller.call("GET", f"{GROUP}/time-window")["streams"]["t"]["position"] == position
        for late in ({"t": {"0": 8}}, {name: {"0": 2} for name in streams}):  # of the earlier stream, perhaps
            report = {"positions": late, "epoch": epoch}
            assert controller.call("PUT", f"{GROUP}/readers/r", report, expect=409)["code"] == "fenced"
        registered = controller.call("PUT", f"{GROUP}/readers/r", {"positions": {"t": {"0": 8}}})
        assert registered["epoch"] > epoch and registered["owned"] == {"t": {"0": 8}}
        while create_again:
            create_again.pop()(controller)


def test_a_reader_of_a_deleted_group_is_refused_in_a_new_one_of_its_name(start: Any) -> None:
    controller = start()
    create(controller)
    epochs = []
    for _ in range(3):
        controller.call("PUT", GROUP, {"streams": ["s"]})
        epochs.append(controller.call("PUT", f"{GROUP}/readers/r", {})["epoch"])
        for earlier in epochs[:-1]:
            late = {"epoch": earlier, "positions": {"s": {"0": 2}}}
            assert controller.call("PUT", f"{GROUP}/readers/r", late, expect=409)["code"] == "fenced"
        controller.call("DELETE", GROUP)
        controller = start()  # the epochs of deleted groups are stored
    assert epochs == [1, 2, 3]
