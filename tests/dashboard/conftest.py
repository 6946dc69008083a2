"""A controller with streams in every condition, and a real browser that looks at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it has no types
from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize, expect

from tests.dashboard.contrast import dim_texts
from tests.served import OwnProcess

WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
THEMES: tuple[Literal["dark", "light"], ...] = ("dark", "light")


def now() -> int:
    return time.time_ns() // 1_000_000


def is_near(url: str) -> bool:
    """Whether something comes from the controller, or is in the page itself."""
    return url.startswith(("http://127.0.0.1:", "data:", "blob:"))


def is_wrong(said: ConsoleMessage) -> bool:
    """A browser says itself that a page, or the way to a controller that is away, could not be had."""
    return "Failed to load resource" not in said.text and "WebSocket connection to" not in said.text


def found_on(page: Page, *, dialog: bool = False) -> list[str]:
    """What axe finds wrong: the rule, and where. It takes what is behind a dialog for the background of the dialog's
    buttons, so that with one it does not look at contrast: `dim_in_dialog` does."""
    options = {"rules": {"color-contrast": {"enabled": not dialog}}}
    found: list[dict[str, Any]] = Axe().run(page, options=options).response["violations"]
    return [f"{rule['id']}: {node['html']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


def dim_in_dialog(page: Page) -> list[str]:
    """The texts of a dialog that are hard to read, in both themes. The dialog has no form: the labels of fields change
    their colours a little later."""
    wrong: list[str] = []
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        expect(page.locator("body.body--dark")).to_have_count(int(theme == "dark"))
        wrong += [f"{theme}: {each}" for each in dim_texts(page.get_by_role("dialog"))]
    return wrong


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages, each for a visitor of its own. What goes wrong in the browser's console fails the test."""
    wrong: list[str] = []
    contexts = []

    def begin(*, size: ViewportSize = WIDE, dark: bool = False) -> Page:
        # Nothing moves: what has appeared can be looked at.
        context = browser.new_context(viewport=size, color_scheme="dark" if dark else "light", reduced_motion="reduce")
        contexts.append(context)
        page = context.new_page()
        context.on("weberror", lambda error: wrong.append(str(error.error)))
        context.on("console", lambda said: wrong.append(said.text) if said.type == "error" and is_wrong(said) else None)
        context.on("request", lambda asked: wrong.append(asked.url) if not is_near(asked.url) else None)
        return page

    yield begin
    for context in contexts:
        context.close()
    assert wrong == []


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
