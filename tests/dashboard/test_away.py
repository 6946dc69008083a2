from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from tests.dashboard.conftest import now
from tests.ports import free_port
from tests.served import ROOT, OwnProcess

pytestmark = pytest.mark.full

FRAMES = 20
# What Python says of a package that is not installed.
NOT_INSTALLED = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "nicegui":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nothing())
"""
# What Linux says where a process may not write to /dev/shm.
NO_SHARED_MEMORY = """
import sys, _multiprocessing
class Refused(_multiprocessing.SemLock):
    def __new__(cls, *_arguments):
        raise PermissionError(13, "Permission denied")
_multiprocessing.SemLock = Refused
"""
SERVE = """
from controller.cli import main
sys.exit(main())
"""


def test_a_fresh_controller_shows_how_to_make_the_first_stream(database: Path, open_page: Callable[..., Page]) -> None:
    process = OwnProcess(database)
    page = open_page()
    page.goto(process.url)
    expect(page.get_by_text("There is no stream yet")).to_be_visible()
    expect(page.get_by_text(f"curl -X PUT {process.url}/v1/streams/orders")).to_be_visible()
    expect(page.get_by_text("There is no reader group yet")).to_be_visible()
    process.stop()


@pytest.fixture
def restarted(database: Path, open_page: Callable[..., Page]) -> Iterator[tuple[OwnProcess, Page, int]]:
    """A controller whose page shows a stream that is fine; its port is free for another one once it is gone."""
    port = free_port()
    process = OwnProcess(database, port=port)
    assert process.client.put("/v1/streams/orders", json={"segments": 1, "mark_interval_ms": 0}).status_code == 201
    note = {"writer": "w1", "time": now(), "position": {"0": 1}}
    assert process.client.post("/v1/streams/orders/notes", json=note).is_success
    page = open_page()
    page.goto(f"{process.url}/streams/orders")
    shown(page)
    expect(alarm(page)).to_be_hidden()
    yield process, page, port
    if process.process.poll() is None:
        process.stop()


def shown(page: Page) -> None:
    """The page is there as a whole: its picture, too, whose library the browser loads last."""
    expect(page.get_by_role("link", name="w1").first).to_be_visible()
    expect(page.locator("svg[aria-roledescription^=flowchart]").first).to_be_attached()
    assert becomes_green(page, True)


def alarm(page: Page) -> Locator:
    return page.get_by_role("alert").filter(has_text="The controller does not answer")


def is_green(page: Page) -> bool:
    """Whether any pixel of a page is green."""
    with Image.open(io.BytesIO(page.screenshot())) as taken:
        data = taken.convert("RGB").tobytes()
    pixels = zip(data[::3], data[1::3], data[2::3], strict=True)
    return any(green > red + 25 and green > blue - 10 for red, green, blue in pixels)


def becomes_green(page: Page, wanted: bool) -> bool:
    """Whether green appears on a page, or disappears; the screen follows the page by some frames."""
    return any(is_green(page) is wanted for _ in range(FRAMES))


def raised(page: Page) -> None:
    """The page says over its whole width how old it is, and nothing on it is green."""
    expect(alarm(page)).to_be_visible()
    expect(page.get_by_text(re.compile(r"\d+ s old, from \d\d:\d\d:\d\d UTC"))).to_be_visible()
    expect(page).to_have_title(re.compile("^⚠ no answer"))
    assert page.evaluate("document.getElementById('sl-alarm').offsetWidth === window.innerWidth")
    page.wait_for_function("getComputedStyle(document.querySelector('.sl-page')).opacity < 1")
    assert becomes_green(page, False)


def lowered(page: Page) -> None:
    """The page is as it was before the alarm."""
    expect(alarm(page)).to_be_hidden()
    expect(page).to_have_title("orders · Strandline")
    shown(page)


def test_a_page_of_a_killed_controller_is_no_longer_green_until_another_serves(
    restarted: tuple[OwnProcess, Page, int], database: Path
) -> None:
    process, page, port = restarted
    process.kill()
    raised(page)
    process = OwnProcess(database, port=port)
    try:
        lowered(page)
    finally:
        process.stop()


def test_a_page_of_a_controller_that_hangs_is_no_longer_green_until_it_goes_on(
    restarted: tuple[OwnProcess, Page, int],
) -> None:
    process, page, _ = restarted
    process.process.send_signal(signal.SIGSTOP)
    try:
        raised(page)
    finally:
        process.process.send_signal(signal.SIGCONT)
    lowered(page)


@pytest.mark.parametrize(
    ("lack", "said"), [(NOT_INSTALLED, "pip install 'strandline[dashboard]'"), (NO_SHARED_MEMORY, "/dev/shm")]
)
def test_where_the_library_cannot_run_a_plain_page_says_what_it_needs(database: Path, lack: str, said: str) -> None:
    command = [sys.executable, "-c", lack + SERVE, "serve", "--database", str(database), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT)}) as process:
        assert process.stdout is not None
        url = process.stdout.readline().rpartition(" ")[2].strip()
        answer = httpx.get(url)
        process.terminate()
    assert answer.status_code == 200
    assert said in answer.text
