"""Takes the pictures of the dashboard in docs/images: a world with an hour behind it, in which a writer falls silent.

python -m tests.dashboard.pictures
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from PIL import Image
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from tests.conftest import BROWSER_FLAGS
from tests.served import ROOT, InProcess, ManualClock, OwnProcess

IMAGES: Final = ROOT / "docs" / "images"
HOUR_MS: Final = 3_600_000
STEP_MS: Final = 10_000
GUILTY: Final = "checkout-eu-2"
ORDERS: Final = ("checkout-eu-1", GUILTY, "checkout-us-1", "checkout-us-2", "app-store")
CLICKS: Final = 60
WIDE: Final[ViewportSize] = {"width": 1280, "height": 900}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}
PAGES: Final = {
    "overview": "/",
    "stream": "/streams/orders",
    "writer": f"/streams/orders/writers/{GUILTY}",
    "group": "/reader-groups/billing",
}
KEPT: Final = ("overview-light", "overview-dark", "stream-light", "stream-phone", "writer-light", "group-dark")


COLOURS: Final = 128  # are enough for what is mostly one colour, and a third of the bytes


def system_now() -> int:
    return time.time_ns() // 1_000_000


class World:
    """What happens, step by step; `call` reaches a controller, whichever it is at that time."""

    def __init__(self) -> None:
        self._chance = random.Random(7)
        self._offsets: dict[tuple[str, str], int] = {}

    def begin(self, call: Any, now: int) -> None:
        plain = {"mark_interval_ms": 1_000, "writer_timeout_ms": 900_000}
        for name, segments in (("orders", 4), ("payments", 1), ("clicks", 8), ("shipments", 2), ("audit", 1)):
            call("PUT", f"/v1/streams/{name}", {"segments": segments, **plain, "max_ahead_ms": None})
        for name in ORDERS:
            call("PUT", f"/v1/streams/orders/writers/{name}")
        self._note(call, "audit", [("old-batch", now, "0")])
        start = {"start": "head"}
        call("PUT", "/v1/reader-groups/billing",
             {"streams": ["orders", "payments"], "backlog_threshold_ms": 60_000, **start})  # fmt: skip
        call("PUT", "/v1/reader-groups/search-index", {"streams": ["orders"], "backlog_threshold_ms": 300_000, **start})
        call("PUT", "/v1/reader-groups/reports", {"streams": ["clicks", "shipments"], **start})
        for reader in ("billing-1", "billing-2"):
            call("PUT", f"/v1/reader-groups/billing/readers/{reader}", {"positions": {}})
        call("POST", "/v1/reader-groups/billing/readers/billing-1/acquire", {"epoch": 1, "max": 3})
        call("POST", "/v1/reader-groups/billing/readers/billing-2/acquire", {"epoch": 2, "max": 3})
        call("PUT", "/v1/reader-groups/search-index/readers/indexer", {"positions": {}})
        call("POST", "/v1/reader-groups/search-index/readers/indexer/acquire", {"epoch": 1, "max": 8})

    def step(self, call: Any, now: int, number: int, *, silent: bool) -> None:
        """Ten seconds of the hour; `silent`: the guilty one says nothing."""
        lags = {name: 800 + 900 * place for place, name in enumerate(ORDERS)}
        slow = 9_000 * max(0, 12 - abs(number % 120 - 60))  # twice an hour somebody is slow for two minutes
        lags["checkout-us-2"] += slow
        notes = [
            (name, now - lags[name] - self._chance.randrange(600), str(place % 4))
            for place, name in enumerate(ORDERS)
            if not (silent and name == GUILTY)
        ]
        self._note(call, "orders", notes)
        self._note(call, "payments", [("gateway", now - 1_500, "0")])
        clicks = [
            (f"edge-{each:02}", now - 300 - 10 * each, str(each % 8)) for each in range(CLICKS)
        ] if number % 3 == 0 else []  # fmt: skip
        self._note(call, "clicks", clicks)
        self._note(call, "shipments", [("warehouse", now - 2_000, "0")])
        if number == 300:
            call("PUT", f"/v1/streams/orders/writers/{GUILTY}")
            call("POST", "/v1/reader-groups/billing/readers/billing-2/acquire", {"epoch": 2, "max": 3})
            call("POST", "/v1/streams/audit/writers/old-batch/exclude")
        if number in (300, 330):
            self._note(call, "audit", [("nightly", now, "0")])
        if number % 40 == 20:  # someone's clock is wrong
            wrong = {"notes": [{"writer": "app-store", "time": now - 700_000, "position": {"0": 1}}]}
            call("POST", "/v1/streams/orders/notes", wrong)
        self._read(call, number)

    def _read(self, call: Any, number: int) -> None:
        slow_until = 250 if 180 < number < 250 else number
        behind = 0 if slow_until == number else 180
        for reader, group in (("indexer", "search-index"), ("billing-1", "billing"), ("billing-2", "billing")):
            epoch = 2 if reader == "billing-2" else 1
            status = call("PUT", f"/v1/reader-groups/{group}/readers/{reader}", {"epoch": epoch, "positions": {}})
            owned = status["owned"]
            place = {
                stream: {
                    segment: max(offset, self._offsets.get((stream, segment), 0) - 2_000 * behind)
                    for segment, offset in segments.items()
                }
                for stream, segments in owned.items()
            }
            if behind and group == "billing":
                continue
            call("PUT", f"/v1/reader-groups/{group}/readers/{reader}", {"epoch": epoch, "positions": place})
        call("GET", "/v1/reader-groups/billing/time-window")

    def _note(self, call: Any, stream: str, notes: list[tuple[str, int, str]]) -> None:
        body = []
        for writer, at, segment in notes:
            offset = self._offsets.get((stream, segment), 0) + self._chance.randrange(20, 60)
            self._offsets[stream, segment] = offset
            body.append({"writer": writer, "time": at, "position": {segment: offset}})
        if body:
            call("POST", f"/v1/streams/{stream}/notes", {"notes": body})


@contextmanager
def an_hour_later(folder: Path) -> Iterator[OwnProcess]:
    """A controller with an hour behind it; one of its writers has just fallen silent."""
    world, steps = World(), HOUR_MS // STEP_MS
    clock = ManualClock(system_now() - HOUR_MS - 15_000)
    with InProcess(folder / "store.db", clock) as controller:
        world.begin(controller.call, clock.now)
        for number in range(steps):
            controller.pass_time(STEP_MS)
            world.step(controller.call, clock.now, number, silent=number > steps - 9)
    process = OwnProcess(folder / "store.db")
    done = threading.Event()
    goes_on = threading.Thread(target=_go_on, args=(world, process.url, steps, done))
    goes_on.start()
    try:
        yield process
    finally:
        done.set()
        goes_on.join()
        process.stop()


def _go_on(world: World, url: str, number: int, done: threading.Event) -> None:
    """Everybody but the guilty one goes on, second by second."""
    with httpx.Client(base_url=url, timeout=30) as client:

        def call(method: str, path: str, body: object = None) -> Any:
            answer = client.request(method, path, json=body)
            return answer.json() if answer.status_code < 300 and answer.content else None

        while not done.wait(1):
            number += 1
            world.step(call, system_now(), number, silent=True)


def take(browser: Browser, url: str, folder: Path, names: Sequence[str]) -> None:
    """Takes the pictures with these names, such as `stream-dark`."""
    for name in names:
        page_name, _, kind = name.rpartition("-")
        phone = kind == "phone"
        context = browser.new_context(
            viewport=PHONE if phone else WIDE, color_scheme="dark" if kind == "dark" else "light"
        )
        page = context.new_page()
        page.goto(url + PAGES[page_name])
        page.get_by_text("Strandline").first.wait_for()
        page.screenshot(path=folder / f"{name}.png", full_page=True)
        with Image.open(folder / f"{name}.png") as picture:
            few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(folder / f"{name}.png", optimize=True)
        context.close()


def main() -> None:
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("Chromium is not installed: apt-get install -y chromium")
    with tempfile.TemporaryDirectory(prefix="strandline-pictures-") as scratch, an_hour_later(Path(scratch)) as process:
        time.sleep(8)  # whoever is silent for five seconds stands out
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=BROWSER_FLAGS)
            take(browser, process.url, IMAGES, KEPT)
            browser.close()


if __name__ == "__main__":
    main()
