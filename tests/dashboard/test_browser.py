"""The script of the pages in a real browser: live change, the keyboard, dialogs, and a controller that is away."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it has no types
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize, expect

from controller.storage.tokens import open_tokens, revoke_token
from strandline.access import Grant, Role
from tests.dashboard.conftest import Keys
from tests.ports import free_port
from tests.served import OwnProcess

pytestmark = pytest.mark.full

Theme: TypeAlias = Literal["dark", "light"]
WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}


TOO_WIDE = """[...document.querySelectorAll('table')]
  .filter(table => table.scrollWidth > table.parentNode.clientWidth + 1).length"""
UNEVEN = """[...document.querySelectorAll('thead')].filter(head =>
  new Set([...head.querySelectorAll('th')].map(each => each.offsetHeight).filter(each => each > 0)).size > 1).length"""


class Shop:
    """A served controller: `app-7` holds `orders` back, while `app-0` goes on when it is told to."""

    def __init__(self, database: Path, port: int) -> None:
        self.database, self.port = database, port
        self.process = OwnProcess(database, port=port)

    @property
    def url(self) -> str:
        return self.process.url

    def put(self, path: str, body: object) -> None:
        assert self.process.client.put(path, json=body).is_success

    def note(self, stream: str, writer: str, offset: int, ago_ms: int = 0) -> None:
        note = {"writer": writer, "time": time.time_ns() // 1_000_000 - ago_ms, "position": {"0": offset}}
        answer = self.process.client.post(f"/v1/streams/{stream}/notes", json=note)
        assert answer.is_success, answer.text

    def begin(self) -> None:
        settings = {"segments": 1, "mark_interval_ms": 0, "writer_timeout_ms": 3_600_000}
        for name in ("orders", "lively", "crowd"):
            self.put(f"/v1/streams/{name}", settings)
        self.note("orders", "app-7", 1, 60_000)
        for number in range(3):
            self.note("orders", f"app-{number}", 2)
        self.note("lively", "w", 1, 900_000)
        self.note("lively", "w", 2)
        self.put("/v1/streams/ahead", {**settings, "max_ahead_ms": None})
        self.note("ahead", "a-writer-with-a-long-name-5b", 1, -86_340_000)
        self.note("ahead", "till-5a", 1)
        notes = [{"writer": f"w-{n:03}", "time": 1_700_000_000_000, "position": {}} for n in range(300)]
        assert self.process.client.post("/v1/streams/crowd/notes", json={"notes": notes}).is_success
        self.put("/v1/reader-groups/billing", {"streams": ["orders"], "backlog_threshold_ms": 1_000})
        self.put("/v1/reader-groups/billing/readers/r1", {"positions": {"orders": {"0": 1}}})


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    found = Shop(tmp_path_factory.mktemp("browser") / "store.db", free_port())
    found.begin()
    yield found
    assert found.process.stop() == 0


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context(viewport=WIDE, reduced_motion="reduce", color_scheme="light")
    yield found
    found.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page; what goes wrong in its console fails the test."""
    wrong: list[str] = []

    def hear(said: ConsoleMessage) -> None:
        if said.type == "error" and "Failed to load resource" not in said.text:
            wrong.append(said.text)

    found = context.new_page()
    found.on("console", hear)
    found.on("pageerror", lambda error: wrong.append(str(error)))
    yield found
    assert wrong == []


def found_on(page: Page) -> list[str]:
    """What axe finds wrong: the rule, and where."""
    found: list[dict[str, Any]] = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [f"{rule['id']}: {node['html']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


def test_what_is_new_shows_in_place_under_the_focus(shop: Shop, page: Page) -> None:
    page.goto(f"{shop.url}/streams/orders")
    page.evaluate("window.same = document.getElementById('writers-row-app-0')")
    link = page.locator("#writers-row-app-0").get_by_role("link")
    row = page.locator("#writers-row-app-0")
    link.focus()
    before = row.text_content() or ""
    shop.note("orders", "app-0", 3)
    expect(row).not_to_have_text(before)
    expect(link).to_be_focused()
    assert page.evaluate("window.same === document.getElementById('writers-row-app-0')")
    page.locator("#writers-by-name").focus()
    for direction in ("ascending", "descending"):  # rows move, and the focus stays
        page.keyboard.press("Enter")
        expect(page.locator("#writers-table th").first).to_have_attribute("aria-sort", direction)
        expect(page.locator("#writers-by-name")).to_be_focused()
    expect(page).to_have_url(re.compile(r"\?writers.sort=-name$"))
    page.keyboard.press("Tab")
    expect(page.locator("#writers-by-state")).to_be_focused()


def test_what_is_typed_stays_while_the_page_changes_and_back_has_it_again(shop: Shop, page: Page) -> None:
    page.goto(f"{shop.url}/streams/crowd")
    field = page.get_by_label("Filter writers")
    field.press_sequentially("w-02", delay=20)
    expect(page.locator("#writers")).to_contain_text("1–10 of 10")
    expect(field).to_be_focused()
    page.get_by_role("link", name="w-025").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("w-025")
    page.go_back()
    for _ in range(2):
        expect(page.locator("#writers")).to_contain_text("1–10 of 10")
        expect(field).to_have_value("w-02")
        page.reload()
    field.fill("")
    page.get_by_label("Rows").last.select_option("50")
    page.goto(f"{shop.url}/streams/crowd?writers.rows=100")
    page.get_by_role("link", name="Next page of writers").click()
    expect(page.locator("#writers")).to_contain_text("101–200 of 300")


def test_a_dialog_by_keyboard_does_nothing_by_accident_and_gives_the_focus_back(shop: Shop, page: Page) -> None:
    """M12: Enter, Enter excluded a writer, and after Escape the focus was on the page's body."""
    page.goto(f"{shop.url}/streams/orders/writers/app-7")
    button = page.get_by_role("button", name="Exclude")
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Exclude app-7?")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    shop.note("orders", "app-7", 4, 50_000)  # the page changes below the dialog
    expect(page.get_by_text("0=4").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    writers = shop.process.client.get("/v1/streams/orders/writers").json()["writers"]
    assert {each["state"] for each in writers} == {"active"}


def test_a_dialog_says_what_is_wrong_keeps_what_was_entered_and_acts_in_the_end(shop: Shop, page: Page) -> None:
    page.goto(f"{shop.url}/streams/lively")
    page.locator("#more summary").click()
    page.get_by_role("button", name="Seal").click()
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_label("final offsets")
    expect(field).to_be_focused()
    field.fill("0")
    page.keyboard.press("Enter")
    expect(dialog.get_by_text("no segment=offset")).to_be_visible()
    expect(field).to_have_attribute("aria-invalid", "")
    field.fill("0=1")
    dialog.get_by_role("button", name="Continue").click()
    expect(dialog.get_by_text("lively ends at 0=1.")).to_be_visible()
    expect(dialog.get_by_role("button", name="Back")).to_be_focused()
    sure = dialog.get_by_role("button", name="Seal")
    expect(sure).to_be_disabled()
    dialog.get_by_label("Type lively to confirm").fill("lively")
    sure.click()
    expect(dialog.locator(".refused")).to_contain_text("2")  # the API refuses it: notes are past that offset
    dialog.get_by_role("button", name="Back").click()
    expect(field).to_have_value("0=1")
    field.fill("0=2")
    dialog.get_by_role("button", name="Continue").click()
    sure.click()
    expect(page.get_by_role("status")).to_have_text("lively is sealed")
    expect(page.locator("#more summary")).to_be_focused()


def test_a_command_is_shown_while_the_page_changes_and_is_copied(shop: Shop, page: Page) -> None:
    page.goto(f"{shop.url}/streams/crowd")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as over plain http
    page.get_by_text("Split, merge, truncate, drop").click()
    shop.note("crowd", "another", 3)
    expect(page.get_by_text("1–25 of 301")).to_be_visible()
    assert found_on(page) == []
    page.get_by_role("button", name="Copy the command").click()
    expect(page.get_by_text("select the text and copy that")).to_be_visible()


@pytest.mark.parametrize("way", ["killed", "hangs"])
def test_a_page_whose_controller_is_away_says_so_acts_no_more_and_recovers(
    tmp_path: Path, page: Page, way: str
) -> None:
    """L19: while the controller was away, a click on `Exclude it` did nothing, and said nothing."""
    shop = Shop(tmp_path / "store.db", free_port())
    shop.begin()
    try:
        page.goto(f"{shop.url}/streams/orders")
        expect(page.get_by_role("button", name="Evaluate now")).to_be_enabled()
        shop.process.kill() if way == "killed" else shop.process.process.send_signal(signal.SIGSTOP)
        alarm = page.get_by_role("alert").filter(has_text="The controller does not answer.")
        expect(alarm).to_be_visible()
        expect(page.locator("#alarm-age")).to_have_text(re.compile(r"^\d+ s old, from \d\d:\d\d:\d\d UTC$"))
        expect(page).to_have_title(re.compile(r"^⚠ no answer · (⚠ \w+ · )?orders · Strandline$"))
        expect(page.get_by_role("button", name="Evaluate now")).to_be_disabled()
        assert page.evaluate("getComputedStyle(document.querySelector('main')).filter") == "grayscale(1)"
        assert page.evaluate("document.getElementById('alarm').offsetWidth === document.documentElement.clientWidth")
        if way == "killed":
            shop.process = OwnProcess(shop.database, port=shop.port)
        else:
            shop.process.process.send_signal(signal.SIGCONT)
        expect(alarm).to_be_hidden()
        expect(page.get_by_role("button", name="Evaluate now")).to_be_enabled()
        expect(page).to_have_title(re.compile(r"^(⚠ \w+ · )?orders · Strandline$"))
    finally:
        shop.process.stop()


def test_signing_in_acting_and_a_revoked_token(tmp_path: Path, page: Page) -> None:
    keys = Keys(str(tmp_path / "store.db"), {name: Grant(name=name, role=Role.ADMIN) for name in ("anna", "carl")})
    process = OwnProcess(tmp_path / "store.db")
    try:
        client, admin = process.client, keys.bearer("anna")
        assert client.put("/v1/streams/orders", json={"segments": 1, "max_ahead_ms": None}, headers=admin).is_success
        note = {"writer": "w1", "time": 42, "position": {"0": 1}}
        assert client.post("/v1/streams/orders/notes", json=note, headers=admin).is_success
        page.goto(f"{process.url}/streams/orders/writers/w1")
        page.get_by_label("Token").fill(keys.tokens["anna"])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="Exclude").click()
        page.get_by_role("dialog").get_by_role("button", name="Exclude").click()
        expect(page.get_by_text("excluded by anna: writer w1")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        page.goto(f"{process.url}/streams/orders?range=6h")
        page.get_by_label("Token").fill(keys.tokens["carl"])
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("orders")
        with open_tokens(keys.database) as connection:
            revoke_token(connection, "carl", 0)
        expect(page.get_by_role("alert").filter(has_text="revoked, or has expired")).to_be_visible()
        page.get_by_label("Token").fill(keys.tokens["anna"])
        page.get_by_role("button", name="Sign in").click()
        expect(page).to_have_url(f"{process.url}/streams/orders?range=6h")
    finally:
        process.stop()


PATHS = (
    "/", "/streams/orders", "/streams/crowd", "/streams/ahead", "/streams/orders/writers/app-7",
    "/reader-groups/billing", "/controllers", "/streams/none", "/sign-in",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_page_breaks_a_rule_of_accessibility_or_is_wider_than_a_phone(shop: Shop, page: Page, path: str) -> None:
    page.goto(shop.url + path)
    looks: tuple[tuple[Theme, ViewportSize], ...] = (("light", WIDE), ("dark", PHONE))
    for theme, size in looks:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=theme)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= size["width"]
        assert page.evaluate(TOO_WIDE) == 0
        assert page.evaluate(UNEVEN) == 0  # L12: heads were at three heights
        assert found_on(page) == []


def test_no_dialog_or_menu_breaks_a_rule_of_accessibility(shop: Shop, page: Page) -> None:
    page.goto(f"{shop.url}/streams/orders")
    themes: tuple[Theme, ...] = ("light", "dark")
    for theme in themes:
        page.emulate_media(color_scheme=theme)
        for name in ("Evaluate now", "Configure", "Seal"):
            if name == "Seal":
                page.locator("#more summary").click()
                assert found_on(page) == []
            page.get_by_role("button", name=name).click()
            expect(page.get_by_role("dialog")).to_be_visible()
            assert found_on(page) == [], name
            page.keyboard.press("Escape")
