from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import choose, dim_in_dialog, found_on

pytestmark = pytest.mark.full

if TYPE_CHECKING:
    from tests.dashboard.conftest import World


def test_a_writer_is_excluded_and_brought_back_once_confirmed(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/orders/writers/app-7")
    page.get_by_role("button", name="Exclude").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert _state(world, "app-7") == "active"
    page.get_by_role("button", name="Exclude").click()
    page.get_by_role("dialog").get_by_role("button", name="Exclude").click()
    expect(page.get_by_text("app-7 is excluded")).to_be_visible()
    assert _state(world, "app-7") == "excluded"
    expect(page.get_by_text("excluded: writer app-7")).to_be_visible()
    page.get_by_role("button", name="Include").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert found_on(page, dialog=True) + dim_in_dialog(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Include").click()
    expect(page.get_by_role("button", name="Exclude")).to_be_visible()
    assert _state(world, "app-7") != "excluded"


def test_a_stream_is_evaluated_now(world: World, open_page: Callable[..., Page]) -> None:
    world.put("/v1/streams/on-demand", {"segments": 1, "mark_interval_ms": None, "max_ahead_ms": None})
    world.note("on-demand", "w", 77)
    page = open_page()
    page.goto(f"{world.url}/streams/on-demand")
    page.get_by_role("button", name="Evaluate now").click()
    page.get_by_role("dialog").get_by_role("button", name="Evaluate").click()
    expect(page.get_by_text("mark 1 was made, at 77")).to_be_visible()


def test_a_configuration_is_changed_in_a_form_and_confirmed(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/quiet")
    page.get_by_role("button", name="Configure").click()
    page.get_by_label("min_writers").fill("3")
    page.get_by_label("max_ahead_ms").fill("")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("min_writers: 3")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    expect(page.get_by_text("the configuration is changed")).to_be_visible()
    described = world.process.client.get("/v1/streams/quiet").json()
    assert (described["min_writers"], described["max_ahead_ms"]) == (3, None)


def test_a_value_that_cannot_be_is_refused_in_words_and_changes_nothing(
    world: World, open_page: Callable[..., Page]
) -> None:
    before = world.process.client.get("/v1/streams/counter").json()["min_writers"]
    page = open_page()
    page.goto(f"{world.url}/streams/counter")
    page.get_by_role("button", name="Configure").click()
    for name, value, said in (
        ("min_writers", "-4", "at least 1"),
        ("writer_timeout_ms", "15", "of which unit?"),
        ("idle_lag_ms", "", "cannot be empty"),
    ):
        page.get_by_label(name).fill(value)
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("dialog").get_by_text(said)).to_be_visible()
    page.get_by_label("min_writers").fill("1")
    page.get_by_label("idle_lag_ms").fill("10 s")
    page.get_by_label("writer_timeout_ms").fill("15 min")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("writer_timeout_ms: 900000")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert world.process.client.get("/v1/streams/counter").json()["min_writers"] == before


def test_a_stream_is_created_split_truncated_sealed_and_deleted_once_confirmed(
    world: World, open_page: Callable[..., Page]
) -> None:
    page, api = open_page(), world.process.client
    dialog = page.get_by_role("dialog")

    def fill(**values: str) -> None:
        for name, value in values.items():
            dialog.get_by_label(name.replace("_", " "), exact=True).fill(value)
        dialog.get_by_role("button", name="Continue").click()

    page.goto(world.url)
    page.get_by_role("button", name="Create a stream").click()
    dialog.get_by_label("max_ahead_ms").fill("")
    fill(name="no name", segments="none")
    expect(dialog.get_by_text("'no name'")).to_be_visible()
    expect(dialog.get_by_text("not a whole number, or open")).to_be_visible()
    fill(name="acted-on", segments="1")
    dialog.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="acted-on").click()
    world.note("acted-on", "w", 5, offset=10)

    # What is refused says so in the dialog, which stays open with what was entered.
    choose(page, "Split or merge segments")
    fill(final_offsets="7=9")
    expect(dialog.get_by_text("there is no segment 7")).to_be_visible()
    fill(final_offsets="0=3")
    expect(dialog.get_by_text("Begins 1 (keys 0 to 0.5), 2 (keys 0.5 to 1).")).to_be_visible()
    dialog.get_by_role("button", name="Scale").click()
    expect(dialog.get_by_role("alert")).to_contain_text("10")
    dialog.get_by_role("button", name="Back").click()
    fill(final_offsets="0=10")
    dialog.get_by_role("button", name="Scale").click()
    expect(page.get_by_text("0 has ended, and 1, 2 has begun")).to_be_visible()

    choose(page, "Truncate")
    fill(head="0=10")
    dialog.get_by_role("button", name="Truncate").click()
    expect(page.get_by_text("acted-on is truncated at 0=10")).to_be_visible()

    choose(page, "Seal")
    fill()
    button = dialog.get_by_role("button", name="Seal")
    expect(button).to_be_disabled()
    dialog.get_by_label("Type acted-on to confirm").fill("acted-on")
    button.click()
    expect(page.get_by_text("acted-on is sealed")).to_be_visible()
    described = api.get("/v1/streams/acted-on").json()
    assert (described["sealed"], described["head"]) == (True, {"0": 10})
    assert [each["id"] for each in described["segments"]] == ["0", "1", "2"]

    choose(page, "Delete")
    dialog.get_by_label("Type acted-on to confirm").fill("orders")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label("Type acted-on to confirm").fill("acted-on")
    dialog.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(f"{world.url}/")
    assert api.get("/v1/streams/acted-on").status_code == 404


def test_a_reader_group_is_created_changed_and_deleted_once_confirmed(
    world: World, open_page: Callable[..., Page]
) -> None:
    page, api = open_page(), world.process.client
    dialog = page.get_by_role("dialog")
    page.goto(world.url)
    page.get_by_role("button", name="Create a reader group").click()
    dialog.get_by_label("name", exact=True).fill("audited")
    dialog.get_by_label("streams", exact=True).fill("counter")
    dialog.get_by_role("button", name="Continue").click()
    dialog.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="audited").click()
    page.get_by_role("button", name="Change").click()
    dialog.get_by_label("streams", exact=True).fill("counter, keyed")
    dialog.get_by_label("backlog_threshold_ms").fill("15 min")
    dialog.get_by_role("button", name="Continue").click()
    dialog.get_by_role("button", name="Change").click()
    expect(page.get_by_text("audited is changed")).to_be_visible()
    described = api.get("/v1/reader-groups/audited").json()
    assert (described["streams"], described["backlog_threshold_ms"]) == (["counter", "keyed"], 900_000)
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_label("Type audited to confirm").fill("audited")
    dialog.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(f"{world.url}/")
    assert api.get("/v1/reader-groups/audited").status_code == 404


def test_a_group_begins_at_positions_and_a_dead_reader_is_taken_offline(
    world: World, open_page: Callable[..., Page]
) -> None:
    page, api = open_page(), world.process.client
    dialog = page.get_by_role("dialog")
    page.goto(world.url)
    page.get_by_role("button", name="Create a reader group").click()
    start = "orders: 0=12,1=9; payments: 0=40"
    for name, text in (("name", "late-start"), ("streams", "orders,payments"), ("start", start)):
        dialog.get_by_label(name, exact=True).fill(text)
    dialog.get_by_role("button", name="Continue").click()
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_text("late-start is created")).to_be_visible()
    described = api.get("/v1/reader-groups/late-start").json()
    assert described["start"] == {"positions": {"orders": {"0": 12, "1": 9}, "payments": {"0": 40}}}
    world.put("/v1/reader-groups/late-start/readers/dead", {"positions": {"orders": {"0": 14}}})
    page.goto(f"{world.url}/reader-groups/late-start")
    page.get_by_role("button", name="Take dead offline").click()
    dialog.get_by_label("positions", exact=True).fill("orders: 0=13")
    dialog.get_by_role("button", name="Continue").click()
    expect(dialog.get_by_text("They go back orders to 0=13.")).to_be_visible()
    dialog.get_by_role("button", name="Take offline").click()
    expect(page.get_by_text("No reader is registered")).to_be_visible()
    window = api.get("/v1/reader-groups/late-start/time-window").json()
    assert window["streams"]["orders"]["position"]["0"] == 13


def _state(world: World, writer: str) -> str:
    found = world.process.client.get("/v1/streams/orders/writers").json()["writers"]
    state: str = next(each["state"] for each in found if each["writer"] == writer)
    return state
