"""No page breaks a rule of axe, in a wide window and on a phone, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it has no types
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import PHONE, WIDE

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


def found_on(page: Page) -> list[str]:
    """What axe finds wrong: the rule, and where."""
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['html']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize("dark", [False, True])
def test_no_page_breaks_a_rule_of_accessibility(world: World, open_page: Callable[..., Page], dark: bool) -> None:
    page = open_page(size=PHONE if dark else WIDE, dark=dark)
    wrong: list[str] = []
    for path, shown in PAGES.items():
        page.goto(world.url + path)
        expect(page.get_by_text(shown).first).to_be_visible()
        wrong += [f"{path} {found}" for found in found_on(page)]
    assert not wrong, "\n".join(wrong)
