"""A controller with streams in every condition, and a real browser that looks at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it has no types
from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize, expect

from tests.dashboard.contrast import dim_texts
from tests.served import OwnProcess

WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
Theme: TypeAlias = Literal["dark", "light"]
THEMES: tuple[Theme, ...] = ("dark", "light")


def now() -> int:
    return time.time_ns() // 1_000_000


def is_near(url: str) -> bool:
    """Whether something comes from the controller, or is in the page itself."""
    return url.startswith(("http://127.0.0.1:", "data:", "blob:"))


def is_wrong(said: ConsoleMessage) -> bool:
    """A browser says itself that a page, or the way to a controller that is away, could not be had."""
    return "Failed to load resource" not in said.text and "WebSocket connection to" not in said.text


def found_on(page: Page, *, dialog: bool = False, within: str | None = None) -> list[str]:
    """What axe finds wrong: the rule, and where. It takes what is behind a dialog for the background of the dialog's
    buttons, so that with one it does not look at contrast: `dim_in_dialog` does. `within` selects a part of a page."""
    options = {"resultTypes": ["violations"], "rules": {"color-contrast": {"enabled": not dialog}}}
    found: list[dict[str, Any]] = Axe().run(page, context=within, options=options).response["violations"]
    return [f"{rule['id']}: {node['html']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


# A page without the library has no theme but the browser's.
_IS_TURNED = "dark => !document.getElementById('app') || document.body.classList.contains('body--dark') === dark"
# What takes a colour, or a place, a little later.
_SETTLE = """async () => {
  await new Promise(requestAnimationFrame);
  await Promise.allSettled(document.getAnimations().map(each => each.finished));
}"""


def look(page: Page, theme: Theme, size: ViewportSize | None = None) -> None:
    """Looks at a page in this theme, and in a window of this size."""
    if size is not None:
        page.set_viewport_size(size)
    page.emulate_media(color_scheme=theme)
    page.wait_for_function(_IS_TURNED, arg=theme == "dark")
    page.evaluate(_SETTLE)


def dim_in_dialog(page: Page) -> list[str]:
    """The texts of a dialog that are hard to read, in both themes."""
    wrong: list[str] = []
    for theme in THEMES:
        look(page, theme)
        wrong += [f"{theme}: {each}" for each in dim_texts(page.get_by_role("dialog"))]
    return wrong


def choose(page: Page, act: str) -> None:
    """Chooses what is seldom done, in the menu of a page, which has closed then: that takes a moment longer than the
    dialog takes to open."""
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name=act, exact=True).click()
    expect(page.get_by_role("menu")).to_have_count(0)


class Visitor:
    """The one visitor of a file. The browser keeps what pages have loaded: most of what the first one costs."""

    def __init__(self, browser: Browser) -> None:
        # Nothing moves: what has appeared can be looked at.
        self._context = browser.new_context(reduced_motion="reduce")
        self._tab = self._context.new_page()
        self._opened: list[Page] = []
        self._wrong: list[str] = []
        self._context.on("weberror", lambda error: self._wrong.append(str(error.error)))
        self._context.on("console", self._hear)
        self._context.on("request", lambda asked: None if is_near(asked.url) else self._wrong.append(asked.url))

    def open(self, *, size: ViewportSize = WIDE, dark: bool = False) -> Page:
        """A tab; the first one is always the same."""
        page = self._context.new_page() if self._opened else self._tab
        self._opened.append(page)
        page.set_viewport_size(size)
        page.emulate_media(color_scheme="dark" if dark else "light")
        return page

    def leave(self) -> None:
        """Closes what was opened, and forgets who the visitor was. Fails if anything went wrong in the browser."""
        for page in self._context.pages:
            if page is not self._tab:
                page.close()
        self._tab.goto("about:blank")
        self._context.clear_cookies()
        self._opened.clear()
        wrong, self._wrong[:] = list(self._wrong), []
        assert wrong == []

    def close(self) -> None:
        self._context.close()

    def _hear(self, said: ConsoleMessage) -> None:
        if said.type == "error" and is_wrong(said):
            self._wrong.append(said.text)


@pytest.fixture(scope="module")
def visitor(browser: Browser) -> Iterator[Visitor]:
    found = Visitor(browser)
    yield found
    found.close()


@pytest.fixture
def open_page(visitor: Visitor) -> Iterator[Callable[..., Page]]:
    """Opens pages. What goes wrong in the browser's console fails the test."""
    yield visitor.open
    visitor.leave()


@dataclass(frozen=True)
class World:
    """A served controller: `orders` is held back by `app-7`, and all its writers are silent; `payments` was split and
    merged; `crowd` has very many writers; `counter` has times that are no dates; `lossy` has a writer that is left out;
    `keyed` has two time keys; `bills` is written by the reader group `billing`."""

    process: OwnProcess

    @property
    def url(self) -> str:
        return self.process.url

    def note(self, stream: str, writer: str, time: int, segment: str = "0", offset: int = 1) -> None:
        body = {"writer": writer, "time": time, "position": {segment: offset}}
        answer = self.process.client.post(f"/v1/streams/{stream}/notes", json=body)
        assert answer.status_code == 200, answer.text

    def put(self, path: str, body: object) -> None:
        answer = self.process.client.put(path, json=body)
        assert answer.status_code < 300, answer.text

    def post(self, path: str, body: object) -> None:
        answer = self.process.client.post(path, json=body)
        assert answer.status_code < 300, answer.text


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    process = OwnProcess(tmp_path_factory.mktemp("dashboard") / "store.db")
    built = World(process)
    build(built)
    yield built
    process.stop()


def build(world: World) -> None:
    # Nobody is silent for so long, however long the pages take to open.
    settings = {"segments": 1, "mark_interval_ms": 0, "writer_timeout_ms": 3_600_000}
    world.put("/v1/streams/orders", {**settings, "segments": 2})
    for name in ("payments", "crowd", "counter", "lossy"):
        world.put(f"/v1/streams/{name}", settings)
    world.put("/v1/streams/quiet", {"segments": 1})
    start = now() - 60_000
    for before in (2, 1, 0):  # a stream that has made marks fast is in trouble soon
        world.note("orders", "app-7", start - before, "1", 10 - before)
    for number in range(5):
        world.note("orders", f"app-{number}", start + 50_000 + number, "0", 10 + number)
    world.note("payments", "p1", start, "0", 100)
    world.post(
        "/v1/streams/payments/scale",
        {
            "seal": {"0": 100},
            "create": [{"id": "1", "low": 0.0, "high": 0.5}, {"id": "2", "low": 0.5, "high": 1.0}],
        },
    )
    world.post(
        "/v1/streams/payments/scale",
        {"seal": {"1": 0, "2": 0}, "create": [{"id": "3", "low": 0.0, "high": 1.0}]},
    )
    world.note("counter", "c1", 41)
    world.note("counter", "c1", 42, offset=2)
    world.put("/v1/streams/lossy/writers/lost", {})
    world.note("lossy", "lost", start)
    world.note("lossy", "kept", start + 1)
    world.post("/v1/streams/lossy/writers/lost/exclude", {})
    world.note("lossy", "kept", start + 2)
    world.put("/v1/streams/keyed", {**settings, "max_ahead_ms": None})
    times = {"order_time": 7_001, "ship_time": 4_002}
    world.post("/v1/streams/keyed/notes", {"writer": "k1", "times": times, "position": {"0": 1}})
    notes = [{"writer": f"w-{n:04}", "time": start, "position": {}} for n in range(3_000)]
    world.post("/v1/streams/crowd/notes", {"notes": notes})
    world.put(
        "/v1/reader-groups/billing",
        {"streams": ["orders", "payments"], "backlog_threshold_ms": 1_000, "reader_timeout_ms": None},
    )
    world.put("/v1/streams/bills", settings)
    world.note("bills", "billing", start)
    world.put("/v1/reader-groups/billing/readers/r1", {"positions": {"orders": {"0": 14, "1": 10}}})


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "store.db"
