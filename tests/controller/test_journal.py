"""The journal: what happened to a stream or a group, bounded, and in the store with what it tells of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.commit.journal import JOURNAL_REFUSALS_BURST_ENTRIES
from controller.storage.journal import JOURNAL_BATCH, JOURNAL_ENTRIES
from controller.storage.tokens import add_token, digest_of, new_token, open_tokens
from controller.streams.cadence import NEW_STILL_MS
from strandline.access import Grant, Role

pytestmark = pytest.mark.usefixtures("store_url")

CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
STREAM = "/v1/streams/s"
NOTES = f"{STREAM}/notes"


def test_administrators_actions_are_recorded_in_order_and_unattributed_without_tokens(controller: Any) -> None:
    controller.call("PUT", STREAM, CONFIG)
    controller.note("a", 100, {"0": 1})
    controller.call("POST", f"{STREAM}/writers/a/exclude")
    controller.call("DELETE", f"{STREAM}/writers/a/exclude")
    controller.call("PATCH", STREAM, {"min_writers": 2})
    controller.call("POST", f"{STREAM}/truncate", {"head": {"0": 1}})
    controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
    controller.call("DELETE", "/v1/reader-groups/g")
    scale = {"seal": {"0": 5}, "create": [{"id": "1", "low": 0, "high": 1}]}
    controller.call("POST", f"{STREAM}/scale", scale)
    controller.call("POST", f"{STREAM}/seal")

    told = controller.told("action")

    assert [(each["kind"], each["by"], each["at"]) for each in told] == [
        (kind, None, controller.clock.now)
        for kind in ("created", "excluded", "included", "configured", "truncated", "group_deleted", "scaled", "sealed")
    ]
    details = {each["kind"]: each["details"] for each in told}
    assert details["created"]["min_writers"] == 1
    assert details["excluded"] == {"writer": "a"} and details["configured"] == {"min_writers": 2}
    assert details["scaled"] == {"seal": {"0": 5}, "create": ["1"]}
    assert details["group_deleted"] == {"group": "g"}


@pytest.mark.one_controller
def test_every_entry_about_a_call_says_whose_it_was(controller: Any) -> None:
    told: list[Any] = []
    tokens = {who: new_token() for who in ("olga", "app", "batch", "oleg", "spark")}
    with open_tokens(str(controller.database)) as connection:
        for who, token in tokens.items():
            add_token(connection, Grant(name=who, role=Role.ADMIN, pattern="*"), digest_of(token.encode()), 0)
    controller.portal.call(controller.app.state.controller.tokens.refresh)
    group, note = "/v1/reader-groups/g", {"writer": "a", "time": 100, "position": {"0": 5}}
    for who, method, path, body, status in (
        ("olga", "PUT", STREAM, CONFIG, 201),
        ("app", "POST", NOTES, note, 200),
        ("app", "POST", NOTES, {**note, "time": 1}, 409),
        ("app", "POST", NOTES, {**note, "time": "now"}, 422),
        ("batch", "POST", NOTES, {"notes": [{**note, "time": 2}, {"writer": "a"}]}, 200),
        ("batch", "POST", "/v1/notes", {"notes": [{"stream": "s", "writer": "a"}]}, 200),
        ("olga", "POST", f"{STREAM}/writers/a/exclude", None, 200),
        ("oleg", "POST", f"{STREAM}/writers/nobody/exclude", None, 404),
        ("oleg", "PUT", STREAM, {**CONFIG, "segments": 7}, 409),
        ("olga", "PUT", group, {"streams": ["s"]}, 201),
        ("spark", "PUT", f"{group}/readers/r", {"positions": {"s": {"0": 1}}}, 200),
        ("oleg", "DELETE", STREAM, None, 204),
    ):
        told = controller.told() if method == "DELETE" else told
        controller.token = tokens[who]
        controller.call(method, path, body, expect=status)

    of_stream = [
        (each["by"], each["kind"], each["details"].get("code"))
        for each in told
        if each["topic"] not in ("state", "pause")
    ]
    assert of_stream == [
        ("olga", "created", None),
        ("app", "refused", "time_went_back"),
        ("app", "refused", "invalid_note"),
        ("batch", "refused", "time_went_back"),
        ("batch", "refused", "invalid_note"),
        ("batch", "refused", "invalid_note"),
        ("olga", "excluded", None),
        ("oleg", "refused", "unknown_writer"),
        ("oleg", "refused", "stream_exists"),
    ]
    of_group = [(each["by"], each["kind"]) for each in controller.told("action", path=group)]
    assert of_group == [("olga", "created"), ("spark", "reader_registered"), ("oleg", "stream_deleted")]


MALFORMED = (
    b'{"writer": "a", "time": 1',
    b'{"writer": "a/b", "time": 1, "position": {}}',
    b'{"notes": [{"writer": "a", "time": [%s], "position": {}}]}' % (b"7," * 9_999 + b"7"),
)


@pytest.mark.one_controller
def test_refusals_are_told_with_their_code_and_values_of_which_huge_ones_are_cut_short(controller: Any) -> None:
    controller.call("PUT", STREAM, CONFIG)
    controller.note("a", 100, {"0": 5})

    for body in MALFORMED:
        controller.request("POST", NOTES, content=body)
        controller.request("POST", "/v1/streams/nowhere/notes", content=body)
    controller.call("POST", NOTES, {"writer": "a", "time": 99, "position": {"0": 6}}, expect=409)
    controller.call("POST", NOTES, {"notes": [{"writer": "a", "time": 100, "position": {"0": 4}}]})
    controller.call("DELETE", f"{STREAM}/segments/0", expect=422)

    told = [each["details"] for each in controller.told("refusal")]
    assert [(each["code"], each.get("name")) for each in told] == [
        ("bad_json", None),
        ("invalid_name", "a/b"),
        ("invalid_note", "time"),
        ("time_went_back", None),
        ("position_went_back", None),
        ("invalid_scale", None),
    ]
    assert all(len(json.dumps(each)) < 5_000 for each in told)
    assert (told[3]["writer"], told[3]["time"], told[3]["stored_time"]) == ("a", 99, 100)
    assert told[5]["call"] == "segment_dropped"


@pytest.mark.one_controller
def test_a_broken_client_cannot_fill_the_journal_and_is_counted(controller: Any) -> None:
    controller.call("PUT", STREAM, CONFIG)
    controller.note("a", 100, {"0": 5})
    bad = {"notes": [{"writer": "a", "time": 1, "position": {}}] * 1_000}
    controller.call("POST", NOTES, bad)

    assert len(controller.told("refusal")) == JOURNAL_REFUSALS_BURST_ENTRIES
    page = controller.call("GET", f"{STREAM}/journal")
    assert page["omitted"] == {"time_went_back": 1_000 - JOURNAL_REFUSALS_BURST_ENTRIES}
    controller.pass_time(60_000)
    controller.call("POST", NOTES, bad)

    told = controller.told("refusal")
    assert len(told) == JOURNAL_REFUSALS_BURST_ENTRIES + 1
    assert told[-1]["details"]["omitted"] == 1_000 - JOURNAL_REFUSALS_BURST_ENTRIES
    assert controller.told("action")[0]["kind"] == "created"


def test_writers_changes_of_state_are_told(controller: Any) -> None:
    controller.call("PUT", STREAM, {**CONFIG, "writer_timeout_ms": 60_000})
    controller.call("PUT", f"{STREAM}/writers/a")
    controller.note("a", 100, {"0": 5})
    controller.call("POST", f"{STREAM}/writers/a/idle")
    controller.note("a", 200, {"0": 6})
    controller.pass_time(60_000)

    told = [(each["details"]["before"], each["details"]["after"]) for each in controller.told("state")]

    assert told == [
        (None, "joined"),
        ("joined", "active"),
        ("active", "idle"),
        ("idle", "active"),
        ("active", "timed_out"),
    ]
    assert controller.told("state")[0]["details"]["writer"] == "a"


@pytest.mark.one_controller
def test_a_group_records_segment_owners_and_when_it_caught_up(controller: Any) -> None:
    group = "/v1/reader-groups/g"
    controller.call("PUT", STREAM, {**CONFIG, "segments": 3})
    controller.note("a", controller.clock.now - 60_000, {"0": 5})
    controller.note("a", controller.clock.now, {"0": 9})
    controller.call("PUT", group, {"streams": ["s"], "backlog_threshold_ms": 1_000})
    epoch = controller.call("PUT", f"{group}/readers/one", {"positions": {"s": {"0": 5}}})["epoch"]
    controller.call("POST", f"{group}/readers/one/acquire", {"epoch": epoch, "max": 1})
    controller.call("PUT", f"{group}/readers/one", {"positions": {"s": {"0": 9}}, "epoch": epoch})
    controller.call("POST", f"{group}/readers/one/release", {"epoch": epoch, "positions": {"s": {"0": 9}}})

    told = [(each["kind"], each["details"]) for each in controller.told("state", path=group)]

    one = {"reader": "one"}
    assert told == [
        ("reader_segments", {**one, "owned": 1, "gained": ["s/0"], "lost": []}),
        ("reader_segments", {**one, "owned": 2, "gained": ["s/1"], "lost": []}),
        ("caught_up", {"lag_ms": 0}),
        ("reader_segments", {**one, "owned": 1, "gained": [], "lost": ["s/0"]}),
    ]


def test_the_journal_is_paged_and_outlives_a_restart(start: Any) -> None:
    controller = start()
    controller.call("PUT", STREAM, CONFIG)
    for n in range(5):
        controller.call("PATCH", STREAM, {"min_writers": n + 1})
    everything = controller.told()
    assert [each["seq"] for each in everything] == [1, 2, 3, 4, 5, 6]

    controller = start()
    first = controller.call("GET", f"{STREAM}/journal?limit=4")
    second = controller.call("GET", f"{STREAM}/journal?limit=4&after={first['next']}")
    assert first["entries"] + second["entries"] == everything
    assert (first["next"], second["next"]) == (4, None)
    controller.call("PATCH", STREAM, {"min_writers": 9})
    assert controller.told()[-1]["seq"] == 7


@pytest.mark.full
def test_each_topic_is_a_ring_that_leaves_the_others_alone(start: Any) -> None:
    controller = start()
    controller.call("PUT", STREAM, {**CONFIG, "writer_timeout_ms": None})
    controller.note("a", 1, {"0": 1})
    for n in range(JOURNAL_ENTRIES + 2 * JOURNAL_BATCH):
        controller.clock.now += 1_000
        controller.call("PATCH", STREAM, {"min_writers": 1 + n % 2})

    controller = start()
    told = [each["seq"] for each in controller.told("action")]
    assert JOURNAL_ENTRIES <= len(told) < JOURNAL_ENTRIES + JOURNAL_BATCH
    assert told == list(range(told[0], told[0] + len(told)))
    assert len(controller.told("state")) == 1
    for n in range(JOURNAL_BATCH):
        controller.call("PATCH", STREAM, {"min_writers": 3 + n % 2})
    assert len(controller.told("action")) == len(told)


def test_a_group_has_a_journal_as_well(start: Any) -> None:
    group = "/v1/reader-groups/g"
    controller = start()
    controller.call("PUT", STREAM, CONFIG)
    controller.call("PUT", group, {"streams": ["s"]})
    controller.call("PUT", f"{group}/readers/one", {"positions": {"s": {"0": 1}}})
    heard = controller.clock.now
    controller.call("PUT", f"{group}/readers/one", {"positions": {"s": {"0": 2}}, "epoch": 9}, expect=409)
    controller.pass_time(30_000)
    controller.call("PUT", f"{group}/readers/two", {"positions": {}})
    controller.call("POST", f"{group}/readers/one/offline", {"positions": {"s": {"0": 0}}})

    told = [(each["kind"], each["details"].get("reader")) for each in start().told(path=group)]

    assert told == [
        ("created", None),
        ("reader_registered", "one"),
        ("reader_segments", "one"),
        ("refused", "one"),
        ("reader_silent", "one"),
        ("reader_registered", "two"),
        ("reader_offline", "one"),
    ]
    controller = start()
    silent = [each for each in controller.told("state", path=group) if each["kind"] == "reader_silent"]
    assert silent[0]["details"]["last_heard_at"] == heard and controller.call("GET", f"{group}/journal")["next"] is None


# -- who held time back, and whom marks left out -----------------------------------------------------------------------


@pytest.mark.one_controller
def test_who_held_time_back_is_told_from_when_to_when(controller: Any) -> None:
    #   slow   100 ─────────────────────── 24 s ─ 300
    #   fast        200 (held from here)          marks again: held by slow until here
    controller.call("PUT", STREAM, CONFIG)
    controller.note("slow", 100, {"0": 1})
    controller.note("fast", 100, {"0": 1})
    began = controller.clock.now
    controller.note("fast", 200, {"0": 2})
    controller.pass_time(NEW_STILL_MS - 1)
    controller.note("fast", 201, {"0": 3})
    assert controller.told("holding") == controller.told("held") == []
    controller.pass_time(4_001)
    controller.note("fast", 202, {"0": 3})
    (open_,) = controller.told("holding")
    assert (open_["details"]["writer"], open_["details"]["from"]) == ("slow", began)
    controller.note("slow", 300, {"0": 4})

    (told,) = controller.told("held")

    assert told["details"] == {
        "writer": "slow",
        "key": "",
        "state": "active",
        "time": 100,
        "from": began,
        "to": controller.clock.now,
    }


@pytest.mark.one_controller
def test_incomplete_marks_end_with_the_writers_return_also_over_a_restart(start: Any) -> None:
    controller = start()
    controller.call("PUT", STREAM, {**CONFIG, "writer_timeout_ms": None})
    controller.note("a", 100, {"0": 1})
    controller.note("b", 50, {"0": 1})
    controller.call("POST", f"{STREAM}/writers/b/exclude")
    for time in (200, 300):
        controller.note("a", time, {"0": time})
    began = controller.marks(after=1)[0]

    controller = start(after_ms=5_000)
    controller.call("DELETE", f"{STREAM}/writers/b/exclude")
    controller.note("b", 400, {"0": 400})
    controller.note("a", 400, {"0": 401})

    kinds = [(each["kind"], each["details"]) for each in controller.told("incomplete")]
    assert [kind for kind, _ in kinds] == ["incomplete", "incomplete_ended"]
    over = kinds[1][1]
    assert (over["excluded"], over["from_seq"], over["from"]) == (["b"], 2, began["created_at"])
    assert (over["to_seq"], over["to_time"], over["to"]) == (3, 300, controller.clock.now)
