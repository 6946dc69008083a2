from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import Page, expect

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
    page.get_by_role("button", name="Save").click()
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
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("dialog").get_by_text(said)).to_be_visible()
    page.get_by_label("min_writers").fill("1")
    page.get_by_label("idle_lag_ms").fill("10 s")
    page.get_by_label("writer_timeout_ms").fill("15 min")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("writer_timeout_ms: 900000")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert world.process.client.get("/v1/streams/counter").json()["min_writers"] == before


def _state(world: World, writer: str) -> str:
    found = world.process.client.get("/v1/streams/orders/writers").json()["writers"]
    state: str = next(each["state"] for each in found if each["writer"] == writer)
    return state
