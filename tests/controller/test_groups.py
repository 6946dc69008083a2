"""Reader groups over HTTP: owned segments, honest positions, one window for all."""

from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("store_url")


CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None}
GROUP = "/v1/reader-groups/g"


@pytest.fixture
def group(controller: Any) -> Any:
    """A stream with marks at 100 (10, 10), 200 (20, 20) and 300 (30, 30), and a group that reads it."""
    controller.call("PUT", "/v1/streams/s", CONFIG)
    for n in (10, 20, 30):
        controller.note("a", 10 * n, {"0": n, "1": n})
    controller.call("PUT", GROUP, {"streams": ["s"]}, expect=201)
    return controller


def reader(controller: Any, name: str, positions: dict[str, int], epoch: int | None = None, expect: int = 200) -> Any:
    body: dict[str, Any] = {"positions": {"s": positions}}
    if epoch is not None:
        body["epoch"] = epoch
    return controller.call("PUT", f"{GROUP}/readers/{name}", body, expect=expect)


def bounds(controller: Any) -> tuple[int | None, int | None]:
    window = controller.call("GET", f"{GROUP}/time-window")["streams"]["s"]
    return window["lower"], window["upper"]


def test_the_groups_window_uses_the_combined_position(group: Any) -> None:
    one = reader(group, "one", {"0": 25})
    assert (one["epoch"], one["owned"]) == (1, {"s": {"0": 25}})
    assert bounds(group) == (None, 300)  # nobody has read segment 1

    answer = reader(group, "two", {"1": 12})

    window = answer["window"]["streams"]["s"]
    assert (window["lower"], window["upper"], window["position"]) == (100, 300, {"0": 25, "1": 12})
    assert window["keys"] == {"": {"lower": 100, "upper": 300, "complete": True}}
    assert window["behind_ms"] == 200 and window["lag_ms"] == group.clock.now - 100
    assert answer["window"]["watermarks"] == {"": 100}


def test_a_registration_that_is_repeated_fences_nobody(group: Any) -> None:
    path, body = f"{GROUP}/readers/one", {"positions": {"s": {"0": 5}}, "registration": "first"}
    assert group.call("PUT", path, body)["epoch"] == 1
    reader(group, "one", {"0": 9}, epoch=1)
    repeated = group.call("PUT", path, body)  # one that was delayed, after its answer was taken for lost
    assert (repeated["epoch"], repeated["owned"]) == (1, {"s": {"0": 9}})
    reader(group, "one", {"0": 12}, epoch=1)
    group.restart()
    assert group.call("PUT", path, body)["epoch"] == 1
    kinds = [each["kind"] for each in group.call("GET", f"{GROUP}/journal")["entries"]]
    assert kinds.count("reader_registered") == 1
    assert group.call("PUT", path, {**body, "registration": "second"})["epoch"] == 2
    assert "registration" in group.call("PUT", path, {**body, "registration": ""}, expect=422)["detail"]
    refused = group.call("PUT", path, {"epoch": 2, "registration": "second"}, expect=422)
    assert refused["name"] == "registration"


def test_reports_are_refused_from_an_old_epoch_and_of_segments_taken_over(group: Any) -> None:
    old = reader(group, "one", {"0": 5, "1": 5})["epoch"]
    new = reader(group, "one", {"0": 5})["epoch"]
    assert reader(group, "one", {"0": 20}, epoch=old, expect=409)["code"] == "fenced"
    reader(group, "two", {"0": 7})

    problem = reader(group, "one", {"0": 20}, epoch=new, expect=409)

    assert problem["code"] == "fenced" and bounds(group) == (None, 100)
    assert reader(group, "nobody", {"0": 20}, epoch=1, expect=404)["code"] == "unknown_reader"
    assert reader(group, "two", {"0": 6}, epoch=3, expect=409)["code"] == "position_went_back"
    assert reader(group, "two", {"9": 6}, epoch=3, expect=422)["code"] == "unknown_segment"


def test_free_segments_are_acquired_furthest_behind_first(group: Any) -> None:
    epoch = reader(group, "one", {"0": 25, "1": 12})["epoch"]
    release = {"epoch": epoch, "positions": {"s": {"0": 25, "1": 12}}}
    assert group.call("POST", f"{GROUP}/readers/one/release", release)["owned"] == {}

    first = group.call("POST", f"{GROUP}/readers/one/acquire", {"epoch": epoch, "max": 1})
    second = group.call("POST", f"{GROUP}/readers/one/acquire", {"epoch": epoch, "max": 5})

    assert first["owned"] == {"s": {"1": 12}}
    assert second["owned"] == {"s": {"0": 25, "1": 12}}


def test_a_silent_reader_loses_its_segments_at_its_last_positions(group: Any) -> None:
    epoch = reader(group, "one", {"0": 25, "1": 12})["epoch"]
    other = reader(group, "two", {})["epoch"]
    group.clock.now += 29_999
    assert group.call("POST", f"{GROUP}/readers/two/acquire", {"epoch": other, "max": 9})["owned"] == {}
    group.clock.now += 1

    taken = group.call("POST", f"{GROUP}/readers/two/acquire", {"epoch": other, "max": 9})["owned"]

    assert taken == {"s": {"0": 25, "1": 12}}
    assert reader(group, "one", {"0": 30}, epoch=epoch, expect=409)["code"] == "fenced"


@pytest.mark.one_controller
def test_showing_a_group_hides_silent_owners_and_changes_nothing(group: Any) -> None:
    def owned() -> list[Any]:
        return [each["owned"] for each in group.call("GET", GROUP)["readers"]]

    reader(group, "one", {"0": 25})
    members = group.portal.call(group.app.state.controller.groups.get, "g").membership
    group.clock.now += 29_999
    assert owned() == [{"s": {"0": 25}}]
    group.clock.now += 1

    assert owned() == [{}]
    assert not members.touched and members.owned("one") == {"s": {"0": 25}}
    assert group.call("GET", f"{GROUP}/time-window")["streams"]["s"]["position"] == {"0": 25}
    assert owned() == [{}] and members.owned("one") == {}


def test_a_successor_counts_once_all_before_it_was_read(group: Any) -> None:
    #    0 [0, .5) ── 40 ─┐
    #                     ├─ 2          one reads 0 and goes on in 2, while two is still in 1
    #    1 [.5, 1) ── 50 ─┘
    scale = {"seal": {"0": 40, "1": 50}, "create": [{"id": "2", "low": 0, "high": 1}]}
    group.call("POST", "/v1/streams/s/scale", scale)
    group.note("a", 400, {"2": 5})
    reader(group, "two", {"1": 12})
    one = reader(group, "one", {"0": 40})["epoch"]
    assert group.call("POST", f"{GROUP}/readers/one/acquire", {"epoch": one, "max": 9})["owned"] == {"s": {"0": 40}}

    reader(group, "one", {"2": 9}, epoch=one)
    assert bounds(group) == (100, 400)
    reader(group, "two", {"1": 50}, epoch=1)

    assert bounds(group) == (400, None)
    group.call("POST", f"{GROUP}/readers/one/offline", {"positions": {"s": {"0": 20}}})
    assert bounds(group)[0] == 200


def test_positions_epochs_and_owners_outlive_a_restart(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.note("a", 100, {"0": 10, "1": 10})
    controller.call("PUT", GROUP, {"streams": ["s"], "backlog_threshold_ms": 5})
    epoch = reader(controller, "one", {"0": 10})["epoch"]
    reader(controller, "two", {"1": 10})
    before = controller.call("GET", GROUP), controller.call("GET", f"{GROUP}/time-window")

    controller = start(after_ms=0)

    assert (controller.call("GET", GROUP), controller.call("GET", f"{GROUP}/time-window")) == before
    assert reader(controller, "one", {"0": 11}, epoch=epoch)["owned"] == {"s": {"0": 11}}
    assert reader(controller, "three", {})["epoch"] == 3


def test_the_time_nobody_served_counts_against_no_reader(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.call("PUT", GROUP, {"streams": ["s"]})
    epoch = reader(controller, "one", {"0": 1})["epoch"]

    controller = start(after_ms=3_600_000)

    other = reader(controller, "two", {})["epoch"]
    assert controller.call("POST", f"{GROUP}/readers/two/acquire", {"epoch": other, "max": 9})["owned"] == {
        "s": {"1": 0}
    }
    reader(controller, "one", {"0": 2}, epoch=epoch)


def test_a_group_starts_at_head_time_or_given_positions(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG)
    for n in (10, 20):
        controller.note("a", 10 * n, {"0": n}, newest=10 * n)
    controller.call("POST", "/v1/streams/s/truncate", {"head": {"0": 4}})
    starts = {"head": "head", "time": {"time": 150}, "told": {"positions": {"s": {"1": 7}}}}
    for name, start in starts.items():
        controller.call("PUT", f"/v1/reader-groups/{name}", {"streams": ["s"], "start": start}, expect=201)

    positions = {
        name: controller.call("GET", f"/v1/reader-groups/{name}/time-window")["streams"]["s"]["position"]
        for name in starts
    }

    assert positions == {"head": {"0": 4}, "time": {"0": 10}, "told": {"1": 7}}


def test_what_was_put_back_stays_so_when_a_successor_goes_on(group: Any) -> None:
    scale = {"seal": {"0": 40, "1": 50}, "create": [{"id": "2", "low": 0, "high": 1}]}
    group.call("POST", "/v1/streams/s/scale", scale)
    reader(group, "one", {"0": 40, "1": 50})
    two = reader(group, "two", {})["epoch"]
    assert group.call("POST", f"{GROUP}/readers/two/acquire", {"epoch": two, "max": 9})["owned"] == {"s": {"2": 0}}
    reader(group, "two", {"2": 9}, epoch=two)

    group.call("POST", f"{GROUP}/readers/one/offline", {"positions": {"s": {"1": 12}}})
    reader(group, "two", {"2": 11}, epoch=two)

    window = group.call("GET", f"{GROUP}/time-window")["streams"]["s"]
    assert (window["lower"], window["position"]) == (100, {"0": 40, "1": 12})
    taken = group.call("POST", f"{GROUP}/readers/two/acquire", {"epoch": two, "max": 9})["owned"]
    assert taken == {"s": {"1": 12, "2": 11}}
    reader(group, "two", {"2": 13}, epoch=two)
    assert bounds(group)[0] == 100


def test_a_reader_is_told_its_even_share_of_what_can_be_read(group: Any) -> None:
    assert reader(group, "one", {})["share"] == 2
    two = reader(group, "two", {"1": 3})
    assert (two["share"], two["free"]) == (1, 1)
    assert reader(group, "three", {})["share"] == 1
    group.clock.now += 30_000
    assert reader(group, "four", {"0": 9})["share"] == 2  # nobody else was heard from


def test_a_reader_may_precede_an_open_segments_first_note(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", CONFIG | {"segments": "open"})
    controller.call("PUT", GROUP, {"streams": ["s"]}, expect=201)
    registered = reader(controller, "one", {"0": 4})
    answer = reader(controller, "one", {"0": 5, "1": 3}, epoch=registered["epoch"])
    assert answer["owned"] == {"s": {"0": 5, "1": 3}}
    controller.note("a", 100, {"0": 5, "1": 3})
    assert bounds(controller) == (100, None)
