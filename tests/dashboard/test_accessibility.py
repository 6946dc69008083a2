"""No page breaks a rule of axe, in a wide window and on a phone, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import PHONE, WIDE, found_on

if TYPE_CHECKING:
    from tests.dashboard.conftest import World

PAGES = {
    "/": "orders",
    "/streams/orders": "app-7",
    "/streams/payments": "p1",
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


@pytest.mark.parametrize("dark", [False, True])
def test_no_page_breaks_a_rule_of_accessibility(world: World, open_page: Callable[..., Page], dark: bool) -> None:
    page = open_page(size=PHONE if dark else WIDE, dark=dark)
    wrong: list[str] = []
    for path, shown in PAGES.items():
        page.goto(world.url + path)
        expect(page.get_by_text(shown).first).to_be_visible()
        wrong += [f"{path} {found}" for found in found_on(page)]
    assert not wrong, "\n".join(wrong)


def test_no_dialog_breaks_a_rule_of_accessibility(world: World, open_page: Callable[..., Page]) -> None:
    page = open_page()
    dialog, wrong = page.get_by_role("dialog"), list[str]()

    def look(name: str) -> None:
        expect(dialog).to_be_visible()
        wrong.extend(f"{name}: {found}" for found in found_on(page, dialog=True))
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)

    for path, names in BUTTONS.items():
        page.goto(world.url + path)
        for name in names:
            page.get_by_role("button", name=name, exact=True).click()
            look(name)
    page.goto(f"{world.url}/streams/orders")
    for name in MORE:
        page.get_by_role("button", name="More").click()
        page.locator(".q-menu").get_by_text(name, exact=True).click()
        look(name)
    assert not wrong, "\n".join(wrong)
