from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import Page, expect

from controller.dashboard import plain_pages

if TYPE_CHECKING:
    from tests.dashboard.conftest import World


def test_an_open_page_of_a_deleted_stream_says_that_it_is_gone(world: World, open_page: Callable[..., Page]) -> None:
    settings = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
    world.put("/v1/streams/passing", settings)
    world.note("passing", "w1", 5)
    page = open_page()
    page.goto(f"{world.url}/streams/passing")
    expect(page.get_by_role("link", name="w1").first).to_be_visible()
    assert world.process.client.delete("/v1/streams/passing").is_success
    expect(page.get_by_role("heading", name="Not here")).to_be_visible()
    world.put("/v1/streams/passing", settings)
    world.note("passing", "w2", 6)
    page.reload()
    expect(page.get_by_role("link", name="w2").first).to_be_visible()
    expect(page.get_by_role("alert").first).to_be_hidden()


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
