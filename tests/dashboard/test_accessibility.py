"""No page breaks a rule of axe, in a wide window and on a phone, light and dark, and none is wider than a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.dashboard.conftest import PHONE, WIDE, Theme, choose, found_on, look

pytestmark = pytest.mark.full

if TYPE_CHECKING:
    from tests.dashboard.conftest import Visitor, World

PAGES = {  # and what stands on them once they are there
    "/": "orders",
    "/streams/orders": "app-7",
    "/streams/payments": "p1",
    "/streams/quiet": "No writer has noted its time yet",
    "/streams/orders/writers/app-7": "app-7",
    "/reader-groups/billing": "r1",
    "/controllers": "live",
    "/journal": "crowd",
    "/lag": "lossy",
    "/topology": "billing",
    "/streams/none-such": "Not here",
    "/sign-in": "Token",
}
BUTTONS = {  # that open a dialog
    "/": ("Create a stream", "Create a reader group"),
    "/streams/orders": ("Evaluate now", "Configure"),
    "/streams/orders/writers/app-7": ("Exclude", "Close"),
    "/reader-groups/billing": ("Change", "Delete"),
}
MORE = ("Split or merge segments", "Drop a segment", "Truncate", "Seal", "Delete")


@pytest.fixture(scope="module", params=PAGES)
def shown(request: pytest.FixtureRequest, world: World, visitor: Visitor) -> Iterator[Page]:
    """Each page, loaded once on a phone. Tests look at it, and change nothing but the window and the theme."""
    page = visitor.open(size=PHONE, dark=True)
    page.goto(world.url + request.param)
    expect(page.get_by_text(PAGES[request.param]).first).to_be_visible()
    yield page
    visitor.leave()


def test_no_page_is_wider_than_a_phone(shown: Page) -> None:
    look(shown, "dark", PHONE)
    assert shown.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]


def test_tables_fit_a_phone_and_break_a_moment_after_its_date_only(shown: Page) -> None:
    look(shown, "dark", PHONE)
    wide = "tables => tables.filter(table => table.scrollWidth > table.clientWidth + 1).length"
    assert shown.locator(".q-table__middle").evaluate_all(wide) == 0
    lines = """cells => cells.map(cell => {
        const range = document.createRange()
        range.selectNodeContents(cell)
        return new Set([...range.getClientRects()].map(line => line.top)).size
    })"""
    assert max(shown.locator("td.sl-moment:visible").evaluate_all(lines), default=0) <= 2


@pytest.mark.parametrize(("theme", "size"), [("dark", PHONE), ("light", WIDE)])
def test_no_page_breaks_a_rule_of_accessibility(shown: Page, theme: Theme, size: ViewportSize) -> None:
    look(shown, theme, size)
    assert found_on(shown) == []


def test_no_menu_breaks_a_rule_of_accessibility(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/orders")
    for button in ("More", "Download writers"):
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("menuitem").first).to_be_visible()
        assert found_on(page, within=".q-menu") == [], button
        page.keyboard.press("Escape")
        expect(page.get_by_role("menu")).to_have_count(0)


def found_in_dialog(page: Page) -> list[str]:
    """What axe finds wrong with the dialog that was opened, which is closed then."""
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    found = found_on(page, dialog=True)
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    return found


@pytest.mark.parametrize("path", BUTTONS)
def test_no_dialog_of_a_button_breaks_a_rule_of_accessibility(
    world: World, open_page: Callable[..., Page], path: str
) -> None:
    page = open_page()
    page.goto(world.url + path)
    for name in BUTTONS[path]:
        page.get_by_role("button", name=name, exact=True).click()
        assert found_in_dialog(page) == [], name


def test_no_dialog_of_the_menu_breaks_a_rule_of_accessibility(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{world.url}/streams/orders")
    for name in MORE:
        choose(page, name)
        assert found_in_dialog(page) == [], name
