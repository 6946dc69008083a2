from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from controller.dashboard import plain_pages
from tests.dashboard.conftest import PHONE, WIDE, look

if TYPE_CHECKING:
    from tests.dashboard.conftest import World


def card(page: Page, heading: str) -> Locator:
    """A part of a page, by its heading."""
    return page.locator(".sl-card", has=page.get_by_role("heading", name=heading, exact=True))


def test_the_guilty_writer_is_two_clicks_from_the_overview(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(world.url)
    row = page.get_by_role("row").filter(has_text="orders").first
    expect(row).to_contain_text("stalled")  # silent writers stand out after 5 s
    expect(page.locator("tbody tr").first).to_contain_text("orders")
    expect(page).to_have_title(re.compile(r"^⚠ \d+ stalled.* · Overview · Strandline$"))
    expect(page.locator("link[rel~=icon]")).to_have_attribute("href", re.compile("^data:image/svg.*dc2626"))
    row.get_by_role("link", name="orders").click()
    expect(page).to_have_title("⚠ stalled · orders · Strandline")
    expect(page.get_by_text("Furthest behind is")).to_be_visible()
    expect(page.get_by_text("times out in")).to_be_visible()
    page.get_by_role("link", name="app-7").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("app-7")
    expect(page.get_by_text("yes, since")).to_be_visible()


def test_a_controller_alone_is_one_row_without_a_button(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(world.url)
    page.get_by_role("link", name="Controllers").click()
    expect(page.get_by_text("One controller serves this store, alone.")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("live")
    expect(page.get_by_role("button", name="Drain")).to_have_count(0)


def test_what_is_new_shows_without_reloading(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/counter")
    expect(page.get_by_text("42", exact=True).first).to_be_visible()
    page.evaluate("window.sameDocument = true")
    world.note("counter", "c1", 4_711, offset=3)
    expect(page.get_by_text("4711", exact=True).first).to_be_visible()
    assert page.evaluate("window.sameDocument") is True


@pytest.mark.full
def test_times_that_are_no_dates_stay_numbers_and_have_no_lag(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/counter")
    expect(page.get_by_role("cell", name=re.compile(r"^4[27]"))).to_be_visible()
    expect(page.get_by_role("heading", name="Event time", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="Lag", exact=True)).to_be_hidden()


def test_splits_and_merges_are_drawn(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/payments")
    expect(page.locator("svg g.node")).to_have_count(4)
    expect(page.locator("svg path.flowchart-link")).to_have_count(4)


@pytest.mark.full
def test_many_segments_are_drawn_folded_and_unfold_on_a_click(world: World, open_page: Callable[..., Page]) -> None:
    world.put("/v1/streams/split-up", {"segments": 500})
    halves = [{"id": f"{n}-{half}", "low": (2 * n + half) / 1000, "high": (2 * n + half + 1) / 1000}
              for n in range(500) for half in (0, 1)]  # fmt: skip
    world.post("/v1/streams/split-up/scale", {"seal": {str(n): 0 for n in range(500)}, "create": halves})
    page = open_page()
    page.goto(f"{world.url}/streams/split-up")
    segments = card(page, "Segments")
    expect(segments.get_by_text("1,500 of 1,500 segments are folded")).to_be_visible()
    expect(segments.locator("svg g.node")).to_have_count(16)
    segments.locator("svg g.node").filter(has_text="63 ended").first.click()
    expect(segments.locator("svg g.node")).to_have_count(23)
    segments.get_by_label("Unfold").press("Enter")
    page.get_by_role("option", name=re.compile("125 open")).first.press("Enter")
    expect(segments.locator("svg g.node")).to_have_count(30)
    segments.get_by_role("button", name="Fold again").click()
    expect(segments.locator("svg g.node")).to_have_count(16)


def test_lag_and_time_are_drawn_from_the_marks(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/orders")
    expect(page.locator("canvas")).to_have_count(2)
    charts = "[...document.querySelectorAll('canvas')].map(c => c.width * c.height)"
    assert all(area > 10_000 for area in page.evaluate(charts))


def test_a_picture_leads_from_a_stream_to_what_its_readers_write(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/topology?flows.filter=bills")
    expect(page.locator(".sl-flow")).to_have_count(2)
    flow = page.get_by_label("from the writers to the readers of orders")
    expect(flow.get_by_role("list", name="billing writes").get_by_role("link")).to_have_text("bills")
    flow.get_by_role("link", name="bills").click()
    flow = page.get_by_label("from the writers to the readers of bills")
    expect(flow.get_by_role("list", name="billing reads").get_by_role("link")).to_have_text(["orders", "payments"])


@pytest.mark.full
def test_thousands_of_writers_come_page_by_page_and_filter(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/crowd")
    expect(page.get_by_text("1-25 of 3000")).to_be_visible()
    page.get_by_role("button", name="Next page").first.click()
    expect(page.get_by_text("26-50 of 3000")).to_be_visible()
    expect(page.get_by_role("link", name="w-0025")).to_be_visible()
    page.get_by_label("Filter writers").fill("w-27")
    expect(page.get_by_text("1-25 of 100")).to_be_visible()
    expect(page.get_by_role("link", name="w-2700")).to_be_visible()


@pytest.mark.full
def test_what_is_chosen_in_a_table_is_there_again_after_back_and_a_reload(
    world: World, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/crowd")
    page.get_by_label("Filter writers").fill("w-27")
    expect(page.get_by_text("1-25 of 100")).to_be_visible()
    head = card(page, "Writers").get_by_role("columnheader", name="Writer", exact=True)
    for direction in ("ascending", "descending"):
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", direction)
    page.get_by_role("button", name="Next page").first.click()
    expect(page.get_by_role("link", name="w-2774")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?writers.filter=w-27&writers.sort=-name&writers.page=2$"))
    page.get_by_role("link", name="w-2774").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("w-2774")
    page.go_back()
    for _ in range(2):
        expect(page.get_by_text("26-50 of 100")).to_be_visible()
        expect(page.get_by_role("link", name="w-2774")).to_be_visible()
        expect(page.get_by_label("Filter writers")).to_have_value("w-27")
        page.reload()


@pytest.mark.parametrize("query", ["sort=none-such", "page=0", "page=999999999999", "page=-1", "rows=7", "filter=%00"])
def test_an_address_that_asks_for_what_cannot_be_shows_the_page(world: World, query: str) -> None:
    assert world.process.client.get(f"/streams/orders?writers.{query}&key=none-such").status_code == 200


@pytest.mark.parametrize(
    ("zone", "shown"),
    [("Asia/Kolkata", "+05:30"), ("", "Z"), ("Europe", "Z"), ("../../etc/passwd", "Z"), ("None/Such", "Z")],
)
def test_times_are_in_the_zone_that_the_browser_chose(world: World, zone: str, shown: str) -> None:
    page = world.process.client.get("/streams/orders", headers={"Cookie": f"strandline_zone={zone}"})
    time = world.process.client.get("/v1/streams/orders").json()["latest_marks"][""]["time"]
    offset = timedelta(hours=5, minutes=30) if shown != "Z" else timedelta()
    at = datetime.fromtimestamp(time // 1000, UTC) + offset
    assert f"time {at:%Y-%m-%d %H:%M:%S}.{time % 1000:03}{shown}" in page.text
    assert f"times in {zone if shown != 'Z' else 'UTC'}" in page.text


@pytest.mark.full
def test_a_link_in_a_row_keeps_the_focus_while_the_row_changes(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/orders")
    row = card(page, "Writers").get_by_role("row").filter(has_text="app-0")
    link = row.get_by_role("link", name="app-0")
    link.focus()
    expect(row).not_to_have_text(row.text_content() or "")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/writers/app-0$"))


def test_a_head_is_sorted_by_with_the_keyboard_and_says_how(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/orders")
    head = card(page, "Writers").get_by_role("columnheader", name="Late", exact=True)
    expect(head).to_have_attribute("aria-sort", "none")
    head.get_by_role("button").focus()
    row = card(page, "Writers").get_by_role("row").filter(has_text="app-0")
    expect(row).not_to_have_text(row.text_content() or "")  # rows change by themselves, and the focus stays where it is
    for direction in ("ascending", "descending"):
        expect(head.get_by_role("button")).to_be_focused()
        page.keyboard.press("Enter")
        expect(head).to_have_attribute("aria-sort", direction)
    expect(card(page, "Writers").get_by_role("columnheader", name="Position")).not_to_have_attribute(
        "aria-sort", "none"
    )
    expect(page.locator("html")).to_have_attribute("lang", "en-US")


def test_a_table_is_saved_as_it_was_filtered_and_sorted(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/crowd?writers.filter=w-27&writers.sort=-name")
    expect(page.get_by_text("1-25 of 100")).to_be_visible()
    for form in ("CSV", "JSON"):
        card(page, "Writers").get_by_role("button", name="Download writers").click()
        with page.expect_download() as saved:
            page.get_by_role("menuitem", name=form, exact=True).click()
        expect(page.get_by_role("menu")).to_have_count(0)
        names = re.findall(r"w-\d{4}", saved.value.path().read_text())
        assert names == [f"w-{number}" for number in range(2799, 2699, -1)], form
        assert saved.value.suggested_filename == f"writers.{form.lower()}"


def test_the_lag_of_all_streams_is_drawn_over_a_range_that_back_keeps(
    world: World, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    page.goto(f"{world.url}/lag")
    page.get_by_label("Time range").click()
    page.get_by_role("option", name="15 min").click()
    page.wait_for_url("**/lag?range=15min")
    row = page.get_by_role("row").filter(has_text="lossy")
    expect(row.locator("svg")).to_have_attribute("aria-label", re.compile("^lag of lossy: "), timeout=60_000)
    expect(page.get_by_role("row").filter(has_text="counter").locator("svg")).to_have_count(0)  # its times are no dates
    row.get_by_role("link", name="lossy").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("lossy")
    page.go_back()
    expect(page.get_by_label("Time range")).to_have_value("15 min")


@pytest.mark.full
def test_dragging_over_a_chart_zooms_and_back_keeps_the_range(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/lossy")
    chart = card(page, "Event time").locator("canvas")
    box = chart.bounding_box()
    assert box is not None
    ready = "[...document.querySelectorAll('.nicegui-echart')].every(e => getElement(e).chart?.hasBrush)"
    page.wait_for_function(ready)
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 100, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile(r"\?from=.*Z&to=.*Z$"))
    chosen = [page.get_by_label(name, exact=True).input_value() for name in ("From", "To")]
    first, last = (datetime.fromisoformat(each) for each in chosen)
    assert timedelta(minutes=5) < last - first < timedelta(minutes=30)
    page.get_by_role("link", name="Strandline").click()
    expect(page.get_by_role("heading", name="Streams")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("From", exact=True)).to_have_value(chosen[0])
    page.get_by_label("From", exact=True).fill("2020-01-01T00:00:00")
    page.get_by_label("From", exact=True).press("Tab")
    expect(page).to_have_url(re.compile(r"\?from=2020-01-01T00"), timeout=30_000)
    page.get_by_label("Time range").click()
    page.get_by_role("option", name="24 h").click()
    page.wait_for_url("**/streams/lossy?range=24h")
    expect(page.get_by_label("From", exact=True)).to_have_value("")


@pytest.mark.full
def test_what_is_typed_before_the_first_updates_of_a_page_is_kept(world: World, open_page: Callable[..., Page]) -> None:
    _, page = open_page(), open_page()  # the first one is that of other tests, too
    page.goto(f"{world.url}/streams/lossy")  # in the visitor's zone from now on
    held: list[Callable[[], None]] = []
    said_by_page: list[str] = []

    def hold(socket: WebSocketRoute) -> None:
        """Holds what the controller tells the page once they are connected, until something was typed."""
        controller = socket.connect_to_server()

        def told(said: str | bytes) -> None:
            send = partial(socket.send, said)
            if not typed and str(said).startswith("42"):  # an event of Socket.IO
                held.append(send)
            else:
                send()

        def hear(said: str | bytes) -> None:
            said_by_page.append(str(said))
            controller.send(said)

        controller.on_message(told)
        socket.on_message(hear)

    typed = False
    page.route_web_socket(re.compile(""), hold)
    page.goto(f"{world.url}/streams/lossy?from=2026-01-01T00:00:01Z&to=2026-01-01T00:30:00Z")
    page.wait_for_function("window.did_handshake")
    field = page.get_by_label("From", exact=True)
    field.fill("2020-01-01T00:00:00")
    typed = True
    for send in held:
        send()
    expect(page).to_have_url(re.compile(r"\?from=2020-01-01T00"), timeout=30_000)
    expect(field).to_have_value("2020-01-01T00:00")
    assert any("2020-01-01T00:00" in said for said in said_by_page)
    assert not any("2026-01-01T00:00:01" in said for said in said_by_page)  # nor does it turn back


def test_a_refused_moment_is_told_until_the_field_is_right_again(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/lossy?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z")
    field, refusal = page.get_by_label("From", exact=True), page.get_by_text("from a moment before the other")
    before = field.input_value()
    field.fill("2020-01-04T00:00:00")
    expect(refusal).to_be_visible()
    field.fill(before)
    expect(refusal).to_have_count(0)


def test_a_search_of_all_journals_is_there_again_after_back(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/journal?topic=action")
    rows = page.locator("tbody tr")
    expect(rows.filter(has_text="quiet")).to_contain_text("created")
    page.get_by_label("Search").fill("EXCLUDED lost")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("excluded: writer lost")
    page.wait_for_url("**/journal?topic=action&search=EXCLUDED+lost")
    rows.get_by_role("link", name="lossy").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("lossy")
    page.go_back()
    expect(page.get_by_label("Search")).to_have_value("EXCLUDED lost")
    expect(rows).to_have_count(1)
    page.get_by_label("Search").fill("nowhere")
    expect(page.get_by_text("Nothing in the journals fits.")).to_be_visible()


def test_names_of_249_characters_break_no_page(world: World, open_page: Callable[..., Page]) -> None:
    name = "n" * 249
    world.put(f"/v1/streams/{name}", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None})
    world.put(f"/v1/reader-groups/{name}", {"streams": [name]})
    world.note(name, name, 5)
    page = open_page()
    hidden = "[...document.querySelectorAll('.q-table__middle')].filter(t => t.scrollWidth > t.clientWidth).length"
    for path in (
        f"/?streams.filter={name}",
        f"/streams/{name}",
        f"/streams/{name}/writers/{name}",
        f"/reader-groups/{name}",
        f"/topology?flows.filter={name}",
    ):
        page.goto(world.url + path)
        for size in (WIDE, PHONE):
            look(page, "light", size)
            expect(page.get_by_text(name).first).to_be_visible()
            assert page.evaluate("document.scrollingElement.scrollWidth") <= size["width"], (path, size)
            assert page.evaluate(hidden) == 0, (path, size)


def test_a_group_shows_its_readers_positions_and_backlog(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/reader-groups/billing")
    expect(page.get_by_role("cell", name="orders/0, orders/1", exact=True)).to_be_visible()
    expect(page.get_by_role("row").filter(has=page.get_by_role("cell", name="orders/0", exact=True))).to_contain_text(
        "14"
    )
    expect(page.get_by_text("reader registered: reader r1")).to_be_visible()


def test_incomplete_marks_link_to_the_writer_and_its_registration(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/lossy")
    expect(card(page, "Incomplete marks").get_by_role("row").filter(has_text="still").last).to_contain_text("lost")
    expect(page.get_by_text("Marks are incomplete: they leave out lost")).to_be_visible()
    page.get_by_role("link", name="lost").first.click()
    expect(page.get_by_text("lost registered, with epoch 1").first).to_be_visible()


def test_late_writers_stand_out_with_how_late_they_are(world: World, open_page: Callable[..., Page]) -> None:
    world.put("/v1/streams/tardy", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None})
    world.note("tardy", "punctual", 40)
    world.note("tardy", "slow", 15)
    page = open_page()
    page.goto(f"{world.url}/streams/tardy")
    expect(card(page, "Writers").get_by_role("row").filter(has_text="slow")).to_contain_text("25 below the marks")
    expect(page.get_by_text("1 writer is below the marks")).to_be_visible()
    expect(card(page, "Journal").get_by_text("late: its time 15 is")).to_be_visible()


def test_a_writer_that_keeps_up_is_not_said_to_hold_time_back(world: World, open_page: Callable[..., Page]) -> None:
    world.put("/v1/streams/steady", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None})
    world.note("steady", "only", 41)
    page = open_page()
    page.goto(f"{world.url}/streams/steady/writers/only")
    row = card(page, "Time").get_by_role("row").last
    expect(row).to_contain_text("41")
    world.note("steady", "only", 42)
    expect(row).to_contain_text("42")
    expect(row.get_by_role("cell").last).to_have_text("no")


def test_each_time_key_of_a_stream_is_shown_and_can_be_chosen(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/keyed")
    expect(card(page, "Time keys").get_by_role("row").filter(has_text="ship_time")).to_contain_text("4002")
    expect(card(page, "Writers").get_by_role("row").filter(has_text="k1")).to_contain_text("7001")
    page.get_by_label("Time key").click()
    page.get_by_role("option", name="ship_time").click()
    expect(card(page, "Writers").get_by_role("row").filter(has_text="k1")).to_contain_text("4002")


@pytest.mark.parametrize("dark", [False, True])
def test_a_page_follows_the_browsers_theme_and_can_be_turned(
    world: World, open_page: Callable[..., Page], dark: bool
) -> None:
    page = open_page(dark=dark)
    page.goto(world.url)
    is_dark = "document.body.classList.contains('body--dark')"
    page.wait_for_function(f"{is_dark} === {str(dark).lower()}")
    page.get_by_role("button", name="Dark or light").click()
    page.wait_for_function(f"{is_dark} !== {str(dark).lower()} && document.cookie.includes('strandline_theme')")
    page.goto(f"{world.url}/streams/orders")
    page.wait_for_function(f"{is_dark} !== {str(dark).lower()}")


def test_the_keyboard_alone_leads_to_a_stream(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(world.url)
    expect(page.get_by_role("cell", name="orders").first).to_be_visible()
    for _ in range(200):  # and once more from the top: rows move
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('href')") == "/streams/orders":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")


def test_the_focus_stays_on_a_row_that_moves(world: World, open_page: Callable[..., Page]) -> None:
    streams = ("moving-a", "moving-b", "moving-c")
    for time, name in enumerate(streams, 1):
        world.put(f"/v1/streams/{name}", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None})
        world.note(name, "w", time)
    page = open_page()
    page.goto(f"{world.url}/?streams.filter=moving&streams.sort=-time")
    names = page.locator("tbody tr a[href^='/streams/moving']")
    expect(names).to_have_text(["moving-c", "moving-b", "moving-a"])
    names.last.focus()
    world.note("moving-a", "w", 4, offset=2)
    expect(names).to_have_text(["moving-a", "moving-c", "moving-b"])
    expect(names.first).to_be_focused()
    page.get_by_role("heading", name="Streams").click()
    expect(names.first).not_to_be_focused()
    for name in streams:
        world.process.client.delete(f"/v1/streams/{name}")


def test_what_is_not_there_is_said_with_a_way_back(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    for path in ("/streams/none-such/writers/w", "/reader-groups/none-such", "/streams/none-such"):
        answer = page.goto(world.url + path)
        assert answer is not None and answer.status == 404
    expect(page.get_by_text("none-such").first).to_be_visible()
    page.get_by_role("link", name="To the overview").click()
    expect(page.get_by_role("cell", name="quiet")).to_be_visible()


def test_an_open_page_of_what_is_deleted_says_so_without_an_alarm_and_shows_what_is_created_anew(
    world: World, open_page: Callable[..., Page]
) -> None:
    settings = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
    world.put("/v1/streams/passing", settings)
    world.note("passing", "w1", 5)
    pages = [open_page(), open_page()]
    for page, path in zip(pages, ("/streams/passing", "/streams/passing/writers/w1"), strict=True):
        page.goto(world.url + path)
        expect(page.get_by_text("w1").first).to_be_visible()
    assert world.process.client.delete("/v1/streams/passing").is_success
    for page in pages:
        expect(page.get_by_role("heading", name="Not here")).to_be_visible()
        expect(page.locator("#sl-alarm")).to_have_count(0)
    world.put("/v1/streams/passing", settings)
    world.note("passing", "w2", 6)
    pages[0].reload()
    expect(pages[0].get_by_role("link", name="w2").first).to_be_visible()
    expect(pages[0].get_by_role("alert").first).to_be_hidden()


def test_a_stream_without_writers_says_why_charts_are_empty_and_shows_the_first_note_to_copy(
    world: World, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/quiet")
    expect(page.get_by_text("No mark was made yet: no writer").first).to_be_visible()
    expect(page.get_by_text("No writer has noted its time yet")).to_be_visible()
    expect(page.get_by_text(f"curl -X POST {world.url}/v1/streams/quiet/notes")).to_be_visible()
    expect(page.get_by_role("button", name="Copy the command")).to_be_visible()


def test_everything_of_the_api_stays_json(world: World) -> None:
    for method, path, status in [
        ("GET", "/v1/none-such", 404),
        ("PUT", "/v1/notes", 405),
        ("GET", "/v1", 404),
        ("DELETE", "/healthz", 405),
    ]:
        answer = world.process.client.request(method, path)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_names_with_dots_have_pages_in_two_tabs_at_once(world: World, open_page: Callable[..., Page]) -> None:
    world.put("/v1/streams/eu.orders-2.v1", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None})
    world.note("eu.orders-2.v1", "w.1", 5)
    one = open_page()
    other = one.context.new_page()
    one.goto(f"{world.url}/streams/eu.orders-2.v1")
    other.goto(f"{world.url}/streams/eu.orders-2.v1/writers/w.1")
    expect(other.get_by_role("heading", level=1)).to_have_text("w.1")
    world.note("eu.orders-2.v1", "w.1", 8_231, offset=2)
    for page in (one, other):
        expect(page.get_by_text("8231", exact=True).first).to_be_visible()


def test_an_unknown_path_says_so_and_writes_no_files(world: World) -> None:
    answer = world.process.client.get("/none-such<b>")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no page at <code>/none-such&lt;b&gt;</code>" in answer.text
    assert not Path(".nicegui").exists()


def test_a_page_that_failed_says_so_without_telling_what_is_inside() -> None:
    answer = plain_pages.failed(ValueError("a password"))
    assert answer.status_code == 500
    assert b"ValueError" in answer.body
    assert b"password" not in answer.body


def test_pages_of_another_origin_are_kept_from_the_channel(world: World) -> None:
    path = "/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    for origin, status in (("https://elsewhere.example", 403), (world.url, 200)):
        assert world.process.client.get(path, headers={"Origin": origin}).status_code == status
