"""What /metrics says is so, stays bounded, and holds up nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.commit.health import Distribution
from controller.operators.metric_families import FAMILIES, MetricKind
from controller.operators.metrics import METRICS_KEYS_OF_STREAM
from controller.streams.counts import OTHER, HeldTime
from tests.operations.scraping import STREAM, Scrape, scrape
from tests.served import NOON, InProcess, ManualClock


def test_a_scrape_tells_who_stalls_a_stream_what_was_counted_and_how_far_a_group_is(busy: Scrape) -> None:
    slow = {"stream": "orders", "key": "", "writer": "slow"}

    assert busy.value("stream_held_now_seconds", **slow, state="active") == 20
    assert busy.value("stream_release_seconds", **slow) == 40
    assert busy.value("stream_held_seconds_total", **slow) == 20
    assert busy.value("stream_watermark_lag_seconds", stream="orders", key="") == 21
    assert busy.value("stream_event_time_lag_seconds", stream="orders", key="") == -10

    assert busy.value("stream_notes_total", stream="orders") == 3
    assert busy.value("stream_marks_total", stream="orders", key="") == 1
    assert busy.value("stream_late_notes_total", stream="orders") == 0
    assert busy.of("stream_refusals_total") == {frozenset({("stream", "orders"), ("code", "time_went_back")}): 1}
    assert busy.value("stream_writers", stream="orders", key="", state="active") == 2
    assert busy.value("stream_idle_seconds", stream="orders") == 20
    assert busy.value("problems_total", code="time_went_back") == 1
    assert busy.value("responses_total", status="409") == 1

    assert busy.value("group_lag_seconds", group="readers") == 21
    assert busy.value("group_stream_lag_seconds", group="readers", stream="orders") == 21
    assert busy.value("group_behind_seconds", group="readers", stream="orders") == 0
    assert busy.value("group_pending_offsets", group="readers", stream="orders") == 0
    lags = busy.of("group_segment_lag_seconds")
    assert {dict(labels)["segment"] for labels in lags} == {"0", "1"} and set(lags.values()) == {21}
    assert busy.value("group_backlog", group="readers") in (0, 1)


def test_a_deleted_stream_leaves_nothing_and_begins_anew_and_its_group_is_unreadable_and_stays(
    controller: InProcess,
) -> None:
    controller.call("PUT", "/v1/streams/s", STREAM)
    controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"], "backlog_threshold_ms": 1_000})
    assert scrape(controller).value("group_readable", group="g") == 1
    for _ in range(2):
        controller.note("w", NOON, {})
        assert scrape(controller).value("stream_notes_total", stream="s") == 1
        controller.call("DELETE", "/v1/streams/s")
        for stream_again in (False, True):
            found = scrape(controller)
            assert found.value("group_readable", group="g") == 0 and found.of("group_backlog") == {}
            assert stream_again or found.of("stream_notes_total") == {}
            controller.call("PUT", "/v1/streams/s", STREAM)
    controller.call("DELETE", "/v1/reader-groups/g")
    assert scrape(controller).of("group_readable") == {}


def test_every_metric_has_a_sample_with_its_declared_labels(busy: Scrape) -> None:
    for family in FAMILIES:
        sample = f"{family.name}_bucket" if family.kind is MetricKind.HISTOGRAM else family.name
        more = {"le"} if family.kind is MetricKind.HISTOGRAM else set()
        assert busy.labels.get(sample) == {*family.labels, *more}, family.name
        assert (busy.kinds[family.name], busy.help[family.name]) == (family.kind, family.help)


def test_what_has_no_labels_of_its_own_is_summed_up(tmp_path: Path) -> None:
    with InProcess(tmp_path / "store.db", ManualClock(), metrics_keys=2) as controller:
        for place, name in enumerate("abcd"):
            controller.call("PUT", f"/v1/streams/{name}", STREAM)
            controller.note("w", NOON - 1_000 * place, {}, name)
        found = scrape(controller)

    labels = {dict(each)["stream"]: value for each, value in found.of("stream_watermark_lag_seconds").items()}
    assert labels == {"a": 0, "b": 1, OTHER: 3}
    assert found.value("stream_notes_total", stream=OTHER) == 2
    assert found.value("stream_marks_total", stream=OTHER, key=OTHER) == 2
    assert found.value("streams") == 4 and found.value("streams_summed_up") == 2


def test_the_keys_of_a_stream_are_bounded_too(controller: InProcess) -> None:
    keys = [f"k{number:02}" for number in range(METRICS_KEYS_OF_STREAM + 4)]
    controller.call("PUT", "/v1/streams/s", STREAM)
    body = {"writer": "w", "times": dict.fromkeys(keys, NOON), "position": {}}
    controller.call("POST", "/v1/streams/s/notes", body)
    marks = {dict(labels)["key"]: value for labels, value in scrape(controller).of("stream_marks_total").items()}

    assert marks == {**dict.fromkeys(keys[:METRICS_KEYS_OF_STREAM], 1), OTHER: 4}


def test_a_stream_at_rest_has_a_lag_before_its_first_mark_times_that_are_no_dates_and_sealed_streams_have_none(
    controller: InProcess,
) -> None:
    for name, time in (("counts", 100), ("sealed", NOON)):
        controller.call("PUT", f"/v1/streams/{name}", STREAM)
        controller.note("w", time, {}, name)
    controller.call("POST", "/v1/streams/sealed/seal", {})
    found = scrape(controller)

    assert found.of("stream_watermark_lag_seconds") == {} == found.of("stream_event_time_lag_seconds")
    assert found.value("stream_marks_total", stream="counts", key="") == 1
    settings = {"segments": 1, "time_domain": "ingestion", "mark_interval_ms": None}
    controller.call("PUT", "/v1/streams/s", settings)
    controller.note("w", NOON, {})
    controller.call("POST", "/v1/streams/s/writers/w/idle")
    controller.pass_time(100_000)
    assert controller.marks() == [] and controller.call("GET", "/v1/streams/s/marks")["resting"] == NOON + 90_000
    assert scrape(controller).value("stream_watermark_lag_seconds", stream="s", key="") == 10


# -- counting ----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 50), st.booleans()), max_size=40))
def test_all_held_time_is_counted_and_values_only_grow(spans: list[tuple[str, int, bool]]) -> None:
    held, now, total = HeldTime(most=3), 0, 0
    before: dict[str, int] = {}
    for writer, length, looked in spans:
        held.begin(writer, "active", now)
        if looked:
            held.count(now + length // 2)
        now += length
        held.end(now)
        total += length
        shown = {**held.by_writer, OTHER: held.other_ms}
        assert len(held.by_writer) <= 3
        assert sum(shown.values()) == total
        assert all(value >= before[name] for name, value in shown.items() if name in before)
        before = shown


def test_who_held_for_longest_is_named_whenever_it_came() -> None:
    held, now = HeldTime(most=2), 0
    for writer, length in (("a", 10), ("b", 20), ("c", 1), ("late", 500)):
        held.begin(writer, "active", now)
        now += length
        held.end(now)

    assert held.by_writer == {"b": 20, "late": 500} and held.other_ms == 11


@pytest.mark.parametrize(("value", "counts"), [(0.5, [1, 0, 0]), (1, [1, 0, 0]), (1.5, [0, 1, 0]), (9, [0, 0, 1])])
def test_a_bound_belongs_to_what_lies_below_it(value: float, counts: list[int]) -> None:
    distribution = Distribution((1, 2))
    distribution.add(value)

    assert distribution.counts == counts and distribution.total == value
