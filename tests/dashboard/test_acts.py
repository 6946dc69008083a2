"""What a visitor can do: each dialog plans one call of the API, says it in words, and refuses what cannot be."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from controller.cli import main
from controller.dashboard.acts import ACTS, ACTS_WITH_CALLS
from strandline.core.config import StreamConfig
from strandline.wire.streams import settings_by_name
from tests.dashboard.conftest import Served
from tests.dashboard.html_tree import read
from tests.served import NOON

ABOUT = {"stream": "s", "writer": "w", "group": "g", "reader": "r"}
NEEDS = {
    "exclude": ("stream", "writer"),
    "include": ("stream", "writer"),
    "close": ("stream", "writer"),
    "configure-group": ("group",),
    "delete-group": ("group",),
    "take-offline": ("group", "reader"),
}


def filled(served: Served, act: str, **about: str) -> dict[str, str]:
    """The texts of a dialog as it opens."""
    query = "&".join(f"{name}={value}" for name, value in about.items())
    dialog = read(served.get(f"/acts/{act}?{query}").text)
    texts = {each["name"]: each["value"] for each in dialog.all("input") if "name" in each.attributes}
    for each in dialog.all("select"):
        texts[each["name"]] = next(o.text for o in each.all("option") if "selected" in o.attributes)
    return texts


@pytest.fixture
def stocked(served: Served) -> Served:
    served.stream("s")
    served.note("w", NOON, {"0": 10})
    served.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
    served.call("PUT", "/v1/reader-groups/g/readers/r", {"positions": {"s": {"0": 5}}})
    return served


@pytest.mark.parametrize("act", sorted({*ACTS, *ACTS_WITH_CALLS}))
def test_every_act_asks_with_its_consequence_and_a_harmless_button_first(stocked: Served, act: str) -> None:
    about = {name: ABOUT[name] for name in NEEDS.get(act, ("stream",))}
    query = "&".join(f"{name}={value}" for name, value in about.items())
    dialog = read(stocked.get(f"/acts/{act}?{query}").text)
    assert dialog.by_id("question").text.endswith("?") and len(dialog.one("div", "asks").text) > 20
    cancel, *others = dialog.one("div", "buttons").all("button")
    assert cancel.text == "Cancel" and not any("autofocus" in each.attributes for each in others)
    has_fields = bool(dialog.all("div", "fields"))
    assert ("autofocus" in cancel.attributes) is not has_fields
    assert ("data-plan" in dialog.one("form").attributes) is not has_fields
    typed = [each["data-typed"] for each in dialog.all("input") if "data-typed" in each.attributes]
    assert typed == ([ABOUT[next(iter(about))]] if act in ("seal", "delete-stream", "delete-group") else [])
    for each in dialog.all("label", for_=""):
        pytest.fail(f"a label of nothing: {each}")


def test_an_act_that_is_none_or_is_about_nothing_is_not_found(stocked: Served) -> None:
    for path in ("/acts/none", "/acts/exclude?stream=s", "/acts/exclude?stream=s&writer=w&more=1"):
        assert stocked.get(path).status_code == 404, path
    assert stocked.get("/acts/configure?stream=none").json()["code"] == "unknown_stream"


def test_a_writer_is_excluded_included_and_closed(stocked: Served) -> None:
    def state() -> str:
        found: str = stocked.call("GET", "/v1/streams/s/writers")["writers"][0]["state"]
        return found

    for act, after in (("exclude", "excluded"), ("include", "active"), ("close", "closed")):
        assert stocked.act(act, stream="s", writer="w").is_success
        assert state() == after
    journal = stocked.page("/streams/s").section("Journal").text
    assert "excluded: writer w" in journal


def test_who_excludes_closes_or_includes_a_writer_is_told_where_time_goes_and_types_its_name_if_that_is_ahead(
    served: Served,
) -> None:
    served.stream("s")
    for writer, time in (("right", NOON), ("ahead", NOON + 86_400_000)):
        served.note(writer, time, {"0": 1})
    leap = "Time goes from 2023-11-14 22:13:20.000Z to 2023-11-15 22:13:20.000Z, 24 h 0 min further: 24 h 0 min ahead"
    for act in ("exclude", "close"):
        assert served.plan(act, stream="s", writer="right")["says"] == f"{leap} of the clock."
        asks = read(served.get(f"/acts/{act}?stream=s&writer=right").text).one("div", "asks")
        assert leap in asks.text and [each["data-typed"] for each in asks.all("input")] == ["right"]
        assert served.plan(act, stream="s", writer="ahead")["says"] == ""
    for writer in ("ahead", "right"):
        served.call("POST", f"/v1/streams/s/writers/{writer}/exclude")
    assert served.plan("include", stream="s", writer="ahead")["says"] == f"{leap} of the clock."
    for writer in ("right", "ahead"):
        assert served.plan("include", stream="s", writer=writer)["says"] == ""
        assert served.act("include", stream="s", writer=writer).is_success
    assert served.marks()[-1]["time"] == NOON
    assert served.act("close", stream="s", writer="right").is_success
    assert served.marks()[-1]["time"] == NOON + 86_400_000
    served.stream("logs", time_domain="ingestion", writer_timeout_ms=None)
    for writer in ("slow", "fast"):
        served.note(writer, served.clock.now, {"0": 1}, "logs")
        served.pass_time(600_000)
    assert served.plan("exclude", stream="logs", writer="slow")["says"] == ""  # the clock bounds where time goes


def test_a_stream_is_configured_sealed_and_deleted(served: Served) -> None:
    served.stream("acted-on")
    served.note("w", 5, {"0": 10}, "acted-on")

    about: dict[str, Any] = {"stream": "acted-on"}
    texts = filled(served, "configure", **about)
    assert (
        "time_domain" not in texts and served.plan("configure", texts, **about)["refused"] == "nothing is changed yet"
    )
    for name, value, said in (
        ("min_writers", "-4", "at least 1"),
        ("max_writers", "99999999999", "at most"),
        ("writer_timeout_ms", "15", "of which unit?"),
        ("idle_lag_ms", "", "cannot be empty"),
    ):
        assert said in served.plan("configure", {**texts, name: value}, **about)["wrong"][name]
    changed = {**texts, "min_writers": "3", "writer_timeout_ms": "15 min"}
    assert served.plan("configure", changed, **about)["says"] == "writer_timeout_ms: 900000, min_writers: 3"
    assert served.act("configure", changed, **about).is_success
    assert served.call("GET", "/v1/streams/acted-on")["writer_timeout_ms"] == 900_000

    assert served.plan("seal", {"final offsets": ""}, **about)["says"].endswith("where each segment was noted last.")
    assert served.act("seal", {"final offsets": ""}, **about).is_success
    assert served.call("GET", "/v1/streams/acted-on")["sealed"]
    assert served.act("delete-stream", **about).is_success
    served.call("GET", "/v1/streams/acted-on", expect=404)


def test_a_stream_is_evaluated(served: Served) -> None:
    settings: dict[str, Any] = {**settings_by_name(StreamConfig(mark_interval_ms=None, max_ahead_ms=None))}
    served.call("PUT", "/v1/streams/s", {"segments": "open", **settings})
    served.note("w", 77, {"a": 1})
    plan = served.plan("evaluate", stream="s", key="")
    assert (plan["done"], plan["nothing"]) == (
        "Mark {mark.seq} was made, at {mark.time}",
        "No mark is possible at this moment",
    )
    answer = served.act("evaluate", stream="s", key="").json()
    assert (answer["mark"]["seq"], answer["mark"]["time"]) == (1, 77)


def test_a_group_is_changed_freed_of_a_reader_and_deleted(stocked: Served) -> None:
    stocked.stream("t")
    changed = {**filled(stocked, "configure-group", group="g"), "streams": "s, t", "backlog_threshold_ms": "15 min"}
    assert stocked.plan("configure-group", changed, group="g")["says"] == "streams: s,t, backlog_threshold_ms: 900000"
    assert stocked.act("configure-group", changed, group="g").is_success
    described = stocked.call("GET", "/v1/reader-groups/g")
    assert (described["streams"], described["backlog_threshold_ms"]) == (["s", "t"], 900_000)
    about = {"group": "g", "reader": "r"}
    plan = stocked.plan("take-offline", {"positions": "s: 0=3"}, **about)
    assert plan["says"] == "r loses its segments. They go back s to 0=3."
    assert stocked.act("take-offline", {"positions": "s: 0=3"}, **about).is_success
    assert "No reader is registered" in stocked.page("/reader-groups/g").text
    assert stocked.act("delete-group", group="g").is_success
    stocked.call("GET", "/v1/reader-groups/g", expect=404)


def test_what_is_done_once_is_shown_as_commands_that_are_right(served: Served) -> None:
    """Each, with what its capitals stand for, is carried out."""
    served.stream("s", segments="open")
    served.note("w", NOON, {"0": 10, "wrong": 1})
    url, said = served.listen(), served.page("/streams/s").section("Segments").one("pre").text
    meant = {"/SEGMENT": "/wrong", "SEGMENT=OFFSET": "0=10", ",…": ""}
    meant["NEW=LOW:HIGH,NEW=LOW:HIGH"] = """'[{"id": "1", "predecessors": ["0"]}]'"""
    for words in meant.items():
        said = said.replace(*words)
    for command in said.replace("http://controller", url).split("strandline ")[1:]:
        assert main([*shlex.split(command), *(["--yes"] if "api" not in command else [])]) == 0, command
    described = served.call("GET", "/v1/streams/s")
    assert [each["id"] for each in described["segments"]] == ["0", "1"] and described["head"] == {"0": 10}


def test_a_form_changes_only_what_its_visitor_changed(stocked: Served) -> None:
    of_stream = filled(stocked, "configure", stream="s")
    of_group = filled(stocked, "configure-group", group="g")
    stocked.stream("t")
    stocked.call("PATCH", "/v1/streams/s", {"min_writers": 3, "writer_timeout_ms": None})
    stocked.call("PATCH", "/v1/reader-groups/g", {"streams": ["s", "t"]})  # by somebody else, while the forms are open

    planned = stocked.plan("configure", {**of_stream, "idle_lag_ms": "9 s"}, stream="s")
    assert (planned["body"], planned["says"]) == ({"idle_lag_ms": 9_000}, "idle_lag_ms: 9000")
    planned = stocked.plan("configure-group", {**of_group, "reader_timeout_ms": "45 s"}, group="g")
    assert (planned["body"], planned["says"]) == ({"reader_timeout_ms": 45_000}, "reader_timeout_ms: 45000")

    for act, texts, about in (
        ("configure", {**of_stream, "min_writers": "2"}, {"stream": "s"}),
        ("configure-group", {**of_group, "streams": "s,u"}, {"group": "g"}),
    ):
        assert "somebody else has changed" in stocked.plan(act, texts, **about)["refused"]
