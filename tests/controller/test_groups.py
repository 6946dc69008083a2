"""Reader groups over HTTP: owned segments, honest positions, one window for all. What is read and what is settled are
two positions: bounds follow the one, and whoever reads next goes on from the other."""

from typing import Any

import pytest

from controller.groups.membership import READER_FORGOTTEN_MS

pytestmark = pytest.mark.usefixtures("store_url")


CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None}
GROUP = "/v1/reader-groups/g"
TIMEOUT_MS = 30_000


def with_group(controller: Any) -> Any:
    """A stream with marks at 100 (10, 10), 200 (20, 20) and 300 (30, 30), and a group that reads it."""
    controller.call("PUT", "/v1/streams/s", CONFIG)
    for n in (10, 20, 30):
        controller.note("a", 10 * n, {"0": n, "1": n})
    controller.call("PUT", GROUP, {"streams": ["s"]}, expect=201)
    return controller


@pytest.fixture
def group(controller: Any) -> Any:
    return with_group(controller)


@pytest.fixture
def scaled(group: Any) -> Any:
    """The stream's segments have ended, and have one successor.

    0 [0, .5) ── 40 ─┐
                     ├─ 2
    1 [.5, 1) ── 50 ─┘
    """
    scale = {"seal": {"0": 40, "1": 50}, "create": [{"id": "2", "low": 0, "high": 1}]}
    group.call("POST", "/v1/streams/s/scale", scale)
    return group


def reader(
    controller: Any,
    name: str,
    read: dict[str, int],
    settled: dict[str, int] | None = None,
    epoch: int | None = None,
    expect: int = 200,
) -> Any:
    body: dict[str, Any] = {"positions": {"s": read}}
    if settled is not None:
        body["settled"] = {"s": settled}
    if epoch is not None:
        body["epoch"] = epoch
    return controller.call("PUT", f"{GROUP}/readers/{name}", body, expect=expect)


def acquire(controller: Any, name: str, epoch: int) -> Any:
    return controller.call("POST", f"{GROUP}/readers/{name}/acquire", {"epoch": epoch, "max": 9})["owned"]


def offline(controller: Any, name: str, positions: dict[str, int]) -> None:
    controller.call("POST", f"{GROUP}/readers/{name}/offline", {"positions": {"s": positions}})


def window(controller: Any) -> Any:
    return controller.call("GET", f"{GROUP}/time-window")["streams"]["s"]


def bounds(controller: Any) -> tuple[int | None, int | None]:
    return window(controller)["lower"], window(controller)["upper"]


def position(controller: Any) -> Any:
    return window(controller)["position"]


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
    group.call("PATCH", GROUP, {"reader_timeout_ms": 100})
    for passed, owned in ((80, {"s": {"0": 12}}), (80, {"s": {"0": 12}}), (200, {})):  # it counts as heard
        group.pass_time(passed)
        assert group.call("PUT", path, body)["owned"] == owned
        assert group.call("GET", GROUP)["readers"][0]["owned"] == owned
    assert group.call("PUT", path, {**body, "registration": "second"})["epoch"] == 2
    assert "registration" in group.call("PUT", path, {**body, "registration": ""}, expect=422)["detail"]
    refused = group.call("PUT", path, {"epoch": 2, "registration": "second"}, expect=422)
    assert refused["name"] == "registration"


def test_reports_are_refused_from_an_old_epoch_of_segments_taken_over_and_settled_beyond_what_was_read(
    group: Any,
) -> None:
    old = reader(group, "one", {"0": 5, "1": 5})["epoch"]
    new = reader(group, "one", {"0": 5})["epoch"]
    assert reader(group, "one", {"0": 20}, epoch=old, expect=409)["code"] == "fenced"
    two = reader(group, "two", {"0": 7})["epoch"]
    assert reader(group, "one", {"0": 20}, epoch=new, expect=409)["code"] == "fenced" and bounds(group) == (None, 100)
    assert reader(group, "nobody", {"0": 20}, epoch=1, expect=404)["code"] == "unknown_reader"
    reader(group, "two", {"0": 20}, {"0": 8}, two)
    for read, settled, status, code in [
        ({"0": 6}, None, 409, "position_went_back"),
        ({"9": 6}, None, 422, "unknown_segment"),
        ({"0": 20}, {"0": 21}, 422, "invalid_note"),
        ({"0": 20}, {"1": 0}, 422, "invalid_note"),
        ({"0": 20}, {"0": 7}, 409, "position_went_back"),
        ({"0": 20, "9": 1}, {"9": 1}, 422, "unknown_segment"),
    ]:
        assert reader(group, "two", read, settled, two, expect=status)["code"] == code
    told = {"positions": {"t": {"0": 1}}, "settled": {"t": {"0": 1}}, "epoch": two}
    assert group.call("PUT", f"{GROUP}/readers/two", told, expect=422)["code"] == "invalid_config"
    assert reader(group, "three", {"0": 20}, {"0": 5}, expect=422)["code"] == "invalid_note"  # it registers
    assert position(group) == {"0": 20, "1": 5}


def test_free_segments_are_acquired_furthest_behind_first(group: Any) -> None:
    epoch = reader(group, "one", {"0": 25, "1": 12})["epoch"]
    release = {"epoch": epoch, "positions": {"s": {"0": 25, "1": 12}}}
    assert group.call("POST", f"{GROUP}/readers/one/release", release)["owned"] == {}

    first = group.call("POST", f"{GROUP}/readers/one/acquire", {"epoch": epoch, "max": 1})
    second = group.call("POST", f"{GROUP}/readers/one/acquire", {"epoch": epoch, "max": 5})

    assert first["owned"] == {"s": {"1": 12}}
    assert second["owned"] == {"s": {"0": 25, "1": 12}}


def test_a_silent_readers_segments_go_on_from_what_is_settled_also_over_restarts(start: Any) -> None:
    controller = with_group(start())
    controller.call("PATCH", GROUP, {"backlog_threshold_ms": 5})
    one = reader(controller, "one", {"0": 0, "1": 0})["epoch"]
    told = reader(controller, "one", {"0": 20, "1": 20}, {"0": 5, "1": 20}, one)
    assert (told["window"]["watermarks"], told["owned"]) == ({"": 200}, {"s": {"0": 20, "1": 20}})
    before = controller.call("GET", GROUP), controller.call("GET", f"{GROUP}/time-window")
    (member,) = before[0]["readers"]
    assert (member["owned"], member["settled"]) == ({"s": {"0": 20, "1": 20}}, {"s": {"0": 5, "1": 20}})

    controller = start(after_ms=0)
    assert (controller.call("GET", GROUP), controller.call("GET", f"{GROUP}/time-window")) == before
    controller = start(after_ms=3_600_000)  # in which nobody served: it counts against no reader
    two = reader(controller, "two", {})["epoch"]
    controller.clock.now += TIMEOUT_MS - 1
    assert acquire(controller, "two", two) == {} and two == 2
    controller.clock.now += 1

    assert reader(controller, "three", {})["window"]["watermarks"] == {"": None}
    controller = start(after_ms=0)
    assert position(controller) == {"0": 5, "1": 20}
    assert acquire(controller, "two", two) == {"s": {"0": 5, "1": 20}}
    assert reader(controller, "one", {"0": 30}, epoch=one, expect=409)["code"] == "fenced"


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


def test_a_reader_is_forgotten_after_a_day_of_silence_and_its_epoch_is_not_given_out_again(group: Any) -> None:
    one = reader(group, "one", {"0": 5})["epoch"]
    group.clock.now += READER_FORGOTTEN_MS - 1
    assert reader(group, "two", {})["owned"] == {}
    assert [each["reader"] for each in group.call("GET", GROUP)["readers"]] == ["one", "two"]
    group.clock.now += READER_FORGOTTEN_MS
    group.call("GET", f"{GROUP}/time-window")
    # The one heard last stays: by it the group counts as abandoned, and keeps no marks.
    assert [each["reader"] for each in group.call("GET", GROUP)["readers"]] == ["two"]
    reader(group, "two", {})
    reader(group, "one", {"0": 9}, epoch=one, expect=404)
    assert reader(group, "one", {})["epoch"] > one
    assert position(group) == {"0": 5}


def test_what_is_not_said_to_be_settled_stays_as_it_was_and_without_a_word_all_that_is_read_is(group: Any) -> None:
    one = reader(group, "one", {"0": 0, "1": 7})["epoch"]
    reader(group, "one", {"0": 20, "1": 20}, {"0": 5}, one)
    reader(group, "one", {"0": 25}, {}, one)
    assert position(group) == {"0": 25, "1": 20}
    group.call("POST", f"{GROUP}/readers/one/offline", {"positions": {}})
    assert position(group) == {"0": 5, "1": 7}

    one = reader(group, "one", {"0": 0, "1": 0})["epoch"]
    reader(group, "one", {"0": 20, "1": 20}, {"0": 5, "1": 5}, one)
    one = reader(group, "one", {"1": 7})["epoch"]  # it registers again, and starts at what is settled or given
    assert position(group) == {"0": 5, "1": 7}
    assert acquire(group, "one", one) == {"s": {"0": 5, "1": 7}}
    given_up = {"epoch": one, "positions": {"s": {"0": 20}}, "settled": {"s": {"0": 6}}}
    assert group.call("POST", f"{GROUP}/readers/one/release", given_up)["owned"] == {"s": {"1": 7}}
    assert acquire(group, "one", one) == {"s": {"0": 6, "1": 7}}
    reader(group, "one", {"0": 20}, {"0": 6}, one)
    reader(group, "one", {"0": 25}, None, one)
    group.clock.now += TIMEOUT_MS
    assert position(group) == {"0": 25, "1": 7}


def test_a_successor_counts_once_all_before_it_was_read(scaled: Any) -> None:
    scaled.note("a", 400, {"2": 5})
    reader(scaled, "two", {"1": 12})
    one = reader(scaled, "one", {"0": 40})["epoch"]
    assert acquire(scaled, "one", one) == {"s": {"0": 40}}

    reader(scaled, "one", {"2": 9}, epoch=one)  # while two is still in 1
    assert bounds(scaled) == (100, 400)
    reader(scaled, "two", {"1": 50}, epoch=1)

    assert bounds(scaled) == (400, None)
    offline(scaled, "one", {"0": 20})
    assert bounds(scaled)[0] == 200


def test_successors_are_read_before_their_predecessors_are_settled(scaled: Any) -> None:
    one = reader(scaled, "one", {"0": 0, "1": 0})["epoch"]
    reader(scaled, "one", {"0": 40, "1": 50}, {"0": 5, "1": 50}, one)
    assert acquire(scaled, "one", one)["s"] == {"0": 40, "1": 50, "2": 0}
    told = reader(scaled, "one", {"2": 9}, {"2": 0}, one)
    assert told["owned"]["s"] == {"0": 40, "1": 50, "2": 9} and told["window"]["watermarks"] == {"": 300}

    scaled.clock.now += TIMEOUT_MS
    two = reader(scaled, "two", {})["epoch"]
    assert position(scaled) == {"0": 5, "1": 50}
    assert acquire(scaled, "two", two)["s"] == {"0": 5}

    reader(scaled, "two", {"0": 40}, {"0": 5}, two)
    assert acquire(scaled, "two", two)["s"] == {"0": 40, "2": 0}
    reader(scaled, "two", {"2": 3}, {"2": 3}, two)
    assert reader(scaled, "two", {"0": 40}, {"0": 40}, two)["owned"]["s"] == {"2": 3}  # 0 is over now


def test_what_was_put_back_stays_so_when_a_successor_goes_on(scaled: Any) -> None:
    reader(scaled, "one", {"0": 40, "1": 50})
    two = reader(scaled, "two", {})["epoch"]
    assert acquire(scaled, "two", two) == {"s": {"2": 0}}
    reader(scaled, "two", {"2": 9}, epoch=two)

    offline(scaled, "one", {"1": 12})
    reader(scaled, "two", {"2": 11}, epoch=two)

    assert (bounds(scaled)[0], position(scaled)) == (100, {"0": 40, "1": 12})
    assert acquire(scaled, "two", two) == {"s": {"1": 12, "2": 11}}
    reader(scaled, "two", {"2": 13}, epoch=two)
    assert bounds(scaled)[0] == 100


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
