"""What pages show of streams in every condition; each fault that operators found has its test here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controller.storage.presence import Presence
from tests.dashboard.conftest import PART, Served
from tests.dashboard.html_tree import Element, read
from tests.served import NOON, ManualClock

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


def stuck(served: Served, name: str = "s") -> None:
    """`slow` has held `fast` back for half a minute."""
    served.stream(name, writer_timeout_ms=10 * MINUTE)
    served.note("slow", NOON, {"0": 1}, name)
    for _ in range(10):
        served.pass_time(3 * SECOND)
        served.note("fast", served.clock.now, {"0": 2}, name)


def ends(page: Element, chart: str = "lag-chart") -> float:
    """How high the line of a chart ends, as a share of its highest place."""
    path = page.by_id(chart).all("path", "line")[0]["d"]
    heights = [1000 - float(each.split()[1]) for each in path[1:].split("L")]
    return heights[-1] / max(*heights, 1.0)


def test_one_of_two_controllers_that_is_away_is_seen_on_the_overview_and_by_its_name(served: Served) -> None:
    assert "Controllers" not in served.page("/").one("dl").text  # one alone needs no number
    other = Presence("b:1", "2", served.clock.wall)
    served.portal.call(served.app.state.controller.store.write, other.serve)
    assert "Controllers 2 of 2" in served.page("/").one("dl").text
    served.pass_time(18 * SECOND)
    tile = served.page("/").one("dl").all("div")[-1]
    assert tile.text == "Controllers 1 of 2 1 away" and tile.all("a")[0]["href"] == "/controllers"
    states = {row["Controller"]: row["State"] for row in served.page("/controllers").rows("controllers")}
    assert states == {"test": "serving", "b:1": "away for 18 s"}
    assert served.call("GET", "/v1/status")["controllers"] == {"serving": 1, "away": 1}
    assert 'strandline_controller_state_seconds{controller="b:1",state="away"} 18.0' in served.get("/metrics").text

    served.portal.call(served.app.state.controller.store.write, other.serve)
    served.portal.call(served.app.state.controller.store.write, other.leave)
    served.pass_time(3 * MINUTE)
    assert "Controllers" not in served.page("/").one("dl").text
    states = {row["Controller"]: row["State"] for row in served.page("/controllers").rows("controllers")}
    assert states == {"test": "serving", "b:1": "ended 3 min 0 s ago"}
    assert 'controller="b:1"' not in served.get("/metrics").text


def test_what_was_refused_is_a_column_of_the_overview_and_one_number_on_the_page(served: Served) -> None:
    served.stream("calm")
    served.stream("s")
    served.note("w", NOON, {"0": 1})
    for _ in range(43):
        served.call("POST", "/v1/streams/s/notes", {"writer": "w", "time": 1, "position": {}}, expect=409)
    served.pass_time(12 * SECOND)
    refused = {row["Stream"]: row["Refused"] for row in served.page("/").rows("streams")}
    assert refused == {"s": "43, last 12 s ago", "calm": "–"}
    page = served.page("/streams/s")
    assert "Refused 43 43 time_went_back; the last one 12 s ago" in page.text
    (row,) = [each["What happened"] for each in page.rows("journal") if "refused" in each["What happened"]]
    assert "20 times since" in row
    served.clock.now += MINUTE
    served.call("POST", "/v1/streams/s/notes", {"writer": "w", "time": 1, "position": {}}, expect=409)
    page = served.page("/streams/s")
    assert "Refused 44" in page.text and "(others were too many to be listed): 21 times since" in page.text
    assert "23 more" not in page.text  # they may be of other writers, and are in the 44


def test_the_guilty_writer_is_named_on_the_overview_and_two_clicks_away(served: Served) -> None:
    stuck(served)
    served.stream("calm")
    page = served.page("/")
    assert page.one("title").children == ["⚠ 1 stuck · Overview · Strandline"]
    assert page.by_id("icon")["href"] == "/static/icon-bad.svg"
    first = page.rows("streams")[0]
    assert (first["State"], first["Stream"], first["Held by"]) == ("stuck", "s", "slow 30 s silent")
    assert page.by_id("attention-s").all("a")[1]["href"] == "/streams/s/writers/slow"
    assert "Time goes on when slow notes a later time" in page.by_id("attention-s").text
    stream = served.page(page.by_id("streams-row-s").all("a")[0]["href"])
    assert stream.by_id("holder").text.startswith("Held back by slow since")
    writer = served.page(stream.by_id("holder").all("a")[0]["href"])
    assert (writer.one("h1").text, writer.rows("keys")[0]["Holds time back"][:10]) == ("slow", "yes, since")


def test_a_writer_that_is_ahead_is_named_before_time_leaps_and_it_is_offered_to_be_excluded(served: Served) -> None:
    served.stream("s", writer_timeout_ms=None)
    served.note("right", NOON, {"0": 1})
    served.note("ahead", NOON + 24 * HOUR, {"0": 1})
    page = served.page("/")
    assert page.one("title").children == ["⚠ 1 ahead · Overview · Strandline"]
    card, row = page.by_id("attention-s"), page.rows("streams")[0]
    assert card.text.startswith("s is ahead: look at ahead") and "Exclude ahead, and set its clock right" in card.text
    assert (row["State"], row["Held by"]) == ("ahead", "ahead 24 h 0 min ahead")
    stream, writer = served.page("/streams/s"), served.page("/streams/s/writers/ahead")
    holder = stream.by_id("holder")
    assert "time goes there once no other writer holds it back" in holder.text
    assert [each["data-act"] for each in holder.all("button")] == ["/acts/exclude?stream=s&writer=ahead"]
    assert "24 h 0 min ahead" in writer.rows("keys")[0]["State"]
    assert "ahead is 24 h 0 min ahead of the clock, at 2023-11-15" in stream.section("Journal").text
    served.pass_time(MINUTE)
    served.note("ahead", NOON + 24 * HOUR + 1, {"0": 1})  # the right one holds it back: to exclude that is the leap
    holder = served.page("/streams/s").by_id("holder")
    assert holder.text.startswith("Held back by right") and "ahead is 23 h 59 min ahead" in holder.text
    assert holder.all("button") == [] and "Exclude ahead, and set its clock right" in holder.text


def test_a_writer_whose_notes_are_refused_is_named_with_the_reason(served: Served) -> None:
    served.stream("s", max_ahead_ms=5 * MINUTE)
    for turn in range(12):
        served.note("right", served.clock.now, {"0": turn})
        body = {"writer": "far", "time": served.clock.now + (HOUR if turn else 0), "position": {"0": turn}}
        served.call("POST", "/v1/streams/s/notes", body, expect=422 if turn else 200)
        served.pass_time(3 * SECOND)
    page = served.page("/")
    assert page.rows("streams")[0]["Held by"].startswith("far ")
    why = "notes of far are refused: 60 min 0 s ahead of the clock (max_ahead_ms)"
    assert why in page.by_id("attention-s").text and why in served.page("/streams/s").by_id("holder").text
    assert "notes refused, 60 min 0 s ahead" in served.page("/streams/s/writers/far").rows("keys")[0]["State"]


@pytest.mark.parametrize("path", ["/", "/streams/s", "/streams/s/writers/slow", "/reader-groups/g", "/controllers"])
def test_a_page_is_whole_at_once_and_its_main_part_alone_is_the_same(served: Served, path: str) -> None:
    stuck(served)
    served.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
    whole = served.page(path)
    part = read(served.get(path, PART).text)
    assert [each.tag for each in part.children if isinstance(each, Element)] == ["main"]
    assert part.one("main").text == whole.one("main").text
    assert whole.one("nav")["aria-label"] == "Pages" and whole.one("h1").text


# -- charts ------------------------------------------------------------------------------------------------------------


def test_a_chart_ends_with_what_the_stream_is_now(served: Served) -> None:
    """H3: it ended in a climb of up to one distance between two samples."""
    served.stream("s")
    for _ in range(400):  # more than are drawn one by one
        served.pass_time(2 * SECOND)
        served.note("w", served.clock.now - 200, {"0": 1})
    served.pass_time(500)
    for span in ("15min", "1h", "24h", "7d"):
        page = served.page(f"/streams/s?range={span}")
        assert "0.7 s behind" in page.by_id("holder").text
        assert "lag of s: 0.7 s at the end" in page.by_id("lag-chart")["aria-label"]
        assert ends(page) < 0.6


def test_a_sealed_stream_ends_in_charts(served: Served) -> None:
    """M10: its peak grew for ever."""
    served.stream("ended", writer_timeout_ms=None)
    served.note("w", served.clock.now - SECOND, {"0": 1}, "ended")
    served.call("POST", "/v1/streams/ended/seal", {})
    served.pass_time(10 * MINUTE)
    page = served.page("/streams/ended?range=15min")
    assert "The stream is sealed: the lines end there." in page.text and "behind" not in page.by_id("holder").text
    assert "at most 1.0 s" in page.by_id("lag-chart")["aria-label"]


# -- words -------------------------------------------------------------------------------------------------------------


def test_a_group_says_what_holds_it_back_since_when_and_since_when_it_is_in_backlog(served: Served) -> None:
    """M8: the page of a group named neither the stream nor the writer."""
    stuck(served)
    served.call("PUT", "/v1/reader-groups/g", {"streams": ["s"], "backlog_threshold_ms": 10_000})
    served.call("PUT", "/v1/reader-groups/g/readers/r", {"positions": {"s": {"0": 1}}})
    served.pass_time(MINUTE)
    served.note("fast", served.clock.now, {"0": 3})
    served.call("GET", "/v1/reader-groups/g/time-window")
    served.pass_time(SECOND)
    page = served.page("/reader-groups/g")
    held = page.by_id("holder").text
    assert "Its time is that of s: the readers are 0.0 s behind its marks." in held
    assert "s is stuck, and waits for slow: since 22:13:23, for 88 s" in held
    backlog = page.all("div", "tile")[1].text
    assert backlog.startswith("Backlog yes since 22:1")


def test_a_writer_that_is_silent_and_holds_time_is_never_called_active(served: Served) -> None:
    """M11: it was "active", in green."""
    served.stream("s", writer_timeout_ms=None)
    for writer in ("a", "b"):
        served.note(writer, NOON, {"0": 1})
    served.pass_time(97 * SECOND)
    page = served.page("/streams/s")
    assert [each["State"].partition(" ◔")[0] for each in page.rows("writers")] == ["silent, 97 s"] * 2
    assert not page.all("span", "good", class_="good")
    assert "2 active; all silent, 97 s" in page.text
    assert served.page("/streams/s/writers/a").rows("keys")[0]["State"] == "silent, 97 s"


def test_a_journal_folds_repeats(served: Served) -> None:
    """M13: 16 of its first 25 rows were one writer's refusals."""
    served.stream("orders")
    served.note("w", NOON, {"0": 1}, "orders")
    for _ in range(5):
        served.call("POST", "/v1/streams/orders/notes", {"writer": "w", "time": 1, "position": {}}, expect=409)
    served.pass_time(SECOND)
    (refused,) = [each for each in served.page("/streams/orders").rows("journal") if "refused" in each["What happened"]]
    assert "5 times since" in refused["What happened"]


def test_a_stream_and_a_group_that_are_made_again_have_journals_of_their_own(served: Served) -> None:
    for interval in (1_111, 2_222):
        served.stream("s", mark_interval_ms=interval)
        served.call("PUT", "/v1/reader-groups/g", {"streams": ["s"], "backlog_threshold_ms": interval})
        served.pass_time(MINUTE)
        for _ in range(5):  # what was read is then shared until there is a later entry
            for path in ("/streams/s", "/reader-groups/g"):
                page = read(served.request("GET", path).text)  # `served.page` would share nothing
                assert str(interval) in page.section("Journal").text
            served.pass_time(2 * SECOND)
        served.call("DELETE", "/v1/reader-groups/g")
        served.call("DELETE", "/v1/streams/s")


# -- the parts of a stream's page --------------------------------------------------------------------------------------


def test_a_stream_shows_marks_left_out_keys_late_writers_and_segments(served: Served) -> None:
    served.stream("s", writer_timeout_ms=None, late_writers="skip")
    served.note("lost", NOON, {"0": 1})
    served.note("kept", NOON + 1, {"0": 2})
    served.call("POST", "/v1/streams/s/writers/lost/exclude")
    served.note("kept", NOON + 2_000, {"0": 3})
    served.note("tardy", NOON + 500, {"0": 3})
    served.pass_time(SECOND)
    page = served.page("/streams/s")
    holder = page.by_id("holder")
    assert "The newest mark is incomplete: it leaves out lost" in holder.text
    assert [each["data-act"] for each in holder.all("button")] == ["/acts/include?stream=s&writer=lost"]
    assert page.rows("incomplete")[0]["Left out"] == "lost" and page.rows("incomplete")[0]["Until"] == "still"
    late = next(each for each in page.rows("writers") if each["Writer"] == "tardy")
    assert "1.5 s below the marks" in late["State"] and "1 writer is below the marks" in page.text
    halves = [{"id": "1", "low": 0.0, "high": 0.5}, {"id": "2", "low": 0.5, "high": 1.0}]
    served.call("POST", "/v1/streams/s/scale", {"seal": {"0": 3}, "create": halves})
    page = served.page("/streams/s")
    assert page.rows("segments")[1]["After"] == "0"


def test_a_writer_that_is_included_again_counts_although_the_newest_mark_leaves_it_out(served: Served) -> None:
    served.stream("s", writer_timeout_ms=None)
    for writer in ("kept", "lost"):
        served.note(writer, NOON, {"0": 1})
    served.call("POST", "/v1/streams/s/writers/lost/exclude")
    served.note("kept", NOON + 2_000, {"0": 3})
    served.call("DELETE", "/v1/streams/s/writers/lost/exclude")
    holder = served.page("/streams/s").by_id("holder")
    assert "Time waits for a writer that is below the marks, lost" in holder.text
    assert "leaves out lost, which counts again" in holder.text and not holder.all("button")


def test_a_crowd_that_nobody_reads_does_not_bury_the_stream_that_is_read(served: Served) -> None:
    for number in range(50):
        served.stream(f"device-{number:02}")
        served.note("gateway", NOON, {"0": 1}, f"device-{number:02}")
    stuck(served, "orders")
    served.call("PUT", "/v1/reader-groups/billing", {"streams": ["orders"]})
    page = served.page("/")
    cards = list(page.all("div", "attention"))
    assert [each["id"] for each in cards] == ["attention-orders", "attention-stalled"]
    assert "50 streams that no reader group reads are stalled: all who write them are silent" in cards[1].text
    assert "device-00, device-01, device-02, device-03, device-04 and 45 more" in cards[1].text
    assert [each["Stream"] for each in page.rows("streams")][:2] == ["orders", "device-00"]

    counts = {each.text: each["href"] for each in page.one("dl", "tiles").all("a")}
    assert list(counts) == ["50 stalled", "1 stuck"]
    assert [each["Stream"] for each in served.page(f"/{counts['1 stuck']}").rows("streams")] == ["orders"]

    known = served.page("/?hush=/streams/orders")
    assert [each["id"] for each in known.all("div", "attention")] == ["attention-stalled"]
    hushed = served.page(f"/{cards[1].one('a', 'quiet')['href']}")
    assert [each["id"] for each in hushed.all("div", "attention")] == ["attention-orders"]
    assert "50 streams in trouble are hushed" in hushed.by_id("hushed").text
    assert hushed.one("title").children == ["⚠ 1 stuck · Overview · Strandline"]
    assert len(served.page(f"/{hushed.by_id('hushed').one('a')['href']}").all("div", "attention")) > 1


def test_a_key_of_several_is_chosen_in_the_address(served: Served) -> None:
    served.stream("s")
    times = {"order_time": NOON - 7_000, "ship_time": NOON - 4_000}
    served.call("POST", "/v1/streams/s/notes", {"writer": "k", "times": times, "position": {"0": 1}})
    assert "7.0 s behind" in served.page("/streams/s?key=order_time").by_id("holder").text
    page = served.page("/streams/s?key=ship_time")
    assert "4.0 s behind" in page.by_id("holder").text
    assert [each["Time key"] for each in page.rows("keys")] == ["order_time", "ship_time"]
    assert [each["value"] for each in page.by_id("key").all("option")] == ["order_time", "ship_time"]


def test_a_writer_shows_its_notes_refusals_and_registrations(served: Served) -> None:
    served.stream("s", writer_timeout_ms=10 * MINUTE)
    served.call("PUT", "/v1/streams/s/writers/w")
    served.note("w", NOON, {"0": 1}, epoch=1)
    served.call("POST", "/v1/streams/s/notes", {"writer": "w", "time": 1, "position": {}, "epoch": 1}, expect=409)
    served.pass_time(SECOND)
    page = served.page("/streams/s/writers/w")
    shown = {"Epoch": "1", "Times out": "in 9 min 59 s", "Position": "0=1"}
    assert shown.items() <= page.tiles().items()
    assert "w registered, with epoch 1" in page.section("Registrations").text
    assert "time_went_back" in page.section("Refusals").text
    names = {each.text for each in page.all("button") if "data-act" in each.attributes}
    assert names == {"Exclude", "Close"}
    served.call("POST", "/v1/streams/s/writers/w/exclude")
    excluded = served.page("/streams/s/writers/w")
    assert {each.text for each in excluded.all("button") if "data-act" in each.attributes} == {"Include", "Close"}


def test_a_group_shows_its_windows_readers_and_positions(served: Served) -> None:
    served.stream("s", segments=2)
    served.note("w", NOON, {"0": 14})
    served.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
    served.call("PUT", "/v1/reader-groups/g/readers/r", {"positions": {"s": {"0": 14, "1": 10}}})
    page = served.page("/reader-groups/g")
    assert page.rows("readers")[0]["Segments"] == "s/0, s/1"
    assert page.rows("segments")[0] == {"Segment": "s/0", "Read up to": "14", "Owned by": "r"}
    assert page.rows("streams")[0]["Stream"] == "s"
    assert "reader registered: reader r" in page.section("Journal").text
    offline = page.one("button", aria_label="Take r offline")
    assert offline["data-act"] == "/acts/take-offline?group=g&reader=r"


def test_a_group_of_a_deleted_stream_is_listed_and_its_page_says_how_to_mend_it(served: Served) -> None:
    for name in ("s", "gone"):
        served.stream(name)
    served.call("PUT", "/v1/reader-groups/g", {"streams": ["s", "gone"], "reader_timeout_ms": MINUTE})
    served.call("PUT", "/v1/reader-groups/g/readers/r", {"positions": {"s": {"0": 4}}})
    served.call("DELETE", "/v1/streams/gone")
    for why in ("one of its streams was deleted", "one of its streams was deleted and created again"):
        for path in ("/", "/streams/s"):
            (row,) = served.page(path).rows("unknown")
            assert (row["Name"], row["Why"]) == ("g", f"cannot be read: {why}"), path
        assert "No reader group" not in served.page("/streams/s").text
        page = served.page("/reader-groups/g")
        said = page.by_id("refusal").text
        assert "'gone'" in said and "out of the group's streams" in said and "delete the group" in said
        tiles = [each.text for each in page.all("div", "tile")]
        assert tiles[0] == "Streams s, gone" and "reader_timeout_ms 1 min" in tiles
        assert page.rows("readers")[0]["Segments"] == "s/0"
        assert page.rows("segments")[-1]["Read up to"] == "4" and "reader registered" in page.section("Journal").text
        acts = [each["data-act"] for each in page.all("button") if "data-act" in each.attributes]
        assert acts[:2] == ["/acts/configure-group?group=g", "/acts/delete-group?group=g"]
        served.stream("gone")
    served.call("PATCH", "/v1/reader-groups/g", {"streams": ["s"]})
    assert served.page("/reader-groups/g").rows("streams")[0]["Stream"] == "s"


# -- addresses ---------------------------------------------------------------------------------------------------------


def test_tables_sort_filter_and_turn_pages_by_their_address(served: Served) -> None:
    served.stream("s")
    notes = [{"writer": f"w-{n:04}", "time": NOON, "position": {}} for n in range(120)]
    served.call("POST", "/v1/streams/s/notes", {"notes": notes})
    page = served.page("/streams/s")
    assert "1–25 of 120" in page.by_id("writers").text
    last = page.by_id("writers-by-name")
    assert last["href"] == "?writers.sort=name"
    page = served.page("/streams/s?writers.sort=-name&writers.page=2&writers.rows=10&writers.filter=w-00")
    names = [each["Writer"] for each in page.rows("writers")]
    assert names == [f"w-00{n}" for n in range(89, 79, -1)]
    assert "11–20 of 100" in page.by_id("writers").text
    by_name = next(each for each in page.by_id("writers-table").all("th") if each.text == "Writer")
    assert by_name["aria-sort"] == "descending"
    assert page.by_id("writers-filter")["value"] == "w-00"


def test_a_stream_may_be_called_as_a_part_of_the_page(served: Served) -> None:
    names = {"table", "filter", "rows", "h", "by-name"}
    for name in names:
        served.stream(name)
    assert {each["Stream"] for each in served.page("/").rows("streams")} == names  # the reader takes no id twice


@pytest.mark.parametrize("query", ["sort=none-such", "page=0", "page=999999999999", "page=-1", "rows=7", "filter=%00"])
def test_an_address_that_asks_for_what_cannot_be_shows_the_page(served: Served, query: str) -> None:
    served.stream("s")
    served.page(f"/streams/s?writers.{query}&key=none-such&range=never&from=now")


@pytest.mark.parametrize(("zone", "shown"), [("Asia/Kolkata", "+05:30"), ("Europe", "Z"), ("../../etc/passwd", "Z")])
def test_times_are_in_the_zone_that_the_browser_chose(served: Served, zone: str, shown: str) -> None:
    served.stream("s")
    served.note("w", NOON, {"0": 1})
    page = served.page("/streams/s", cookies={"strandline_zone": zone})
    at = datetime.fromtimestamp(NOON // 1000, UTC) + (timedelta(hours=5.5) if shown != "Z" else timedelta())
    assert f"time {at:%Y-%m-%d %H:%M:%S}.000{shown}" in page.text
    assert page.by_id("zone").text == f"times in {zone if shown != 'Z' else 'UTC'}"


def test_a_theme_is_kept_in_a_cookie(served: Served) -> None:
    assert served.page("/", cookies={"strandline_theme": "dark"}).one("html")["data-theme"] == "dark"
    assert "data-theme" not in served.page("/", cookies={"strandline_theme": '"><b>'}).one("html").attributes


def test_what_is_not_there_says_so_and_leads_back(served: Served) -> None:
    for path in ("/streams/none", "/streams/none/writers/w", "/reader-groups/none", "/none-such", "/streams/a%20b"):
        page = served.page(path, status=served.get(path).status_code)
        assert served.get(path).status_code in (400, 404, 422), path
        assert page.one("h1").text == "Not here" and page.one("main").one("a")["href"] == "/"
    assert served.get("/streams/none", PART).json()["code"] == "unknown_stream"  # the page loads itself then
    for path in ("/v1/none", "/v1/streams/s/seal", "/healthz/none"):
        assert served.get(path).headers["content-type"] == "application/problem+json", path


class Broken:
    """A status that raises an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def overview(self) -> None:
        raise self._error


def test_a_page_that_failed_says_so_tells_nothing_of_the_inside_and_goes_on(served: Served) -> None:
    controller = served.app.state.controller
    sound, controller.status = controller.status, Broken(KeyError("a password"))
    page = read(served.request("GET", "/").text)
    assert "Not known at this moment" in page.one("h1").text and "KeyError" in page.text
    assert "password" not in page.text and "data-live" in page.one("main").attributes
    part = served.request("GET", "/", headers=PART)
    assert part.status_code == 500 and "password" not in part.text
    controller.status = sound
    assert served.page("/").one("h1").text == "Overview"


def test_the_page_of_a_stream_leads_to_its_dashboard_in_grafana(tmp_path: Path) -> None:
    class WithGrafana(Served):
        grafana = "https://grafana.test/d/s?var-stream={stream}"

    with WithGrafana(tmp_path / "store.db", ManualClock()) as served:
        served.stream("orders")
        link = next(each for each in served.page("/streams/orders").all("a") if each.text == "Grafana")
        assert (link["href"], link["rel"]) == ("https://grafana.test/d/s?var-stream=orders", "noopener")
