from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.ports import free_port
from tests.served import ROOT, OwnProcess

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


def test_a_page_shows_an_absent_controller_and_recovers_with_it(database: Path, open_page: Callable[..., Page]) -> None:
    port = free_port()
    process = OwnProcess(database, port=port)
    assert process.client.put("/v1/streams/orders", json={"segments": 1}).status_code == 201
    page = open_page()
    page.goto(process.url)
    expect(page.get_by_role("cell", name="orders")).to_be_visible()
    process.kill()
    expect(page.get_by_text("Connection lost")).to_be_visible()
    process = OwnProcess(database, port=port)
    assert process.client.put("/v1/streams/later", json={"segments": 1}).status_code == 201
    expect(page.get_by_role("cell", name="later")).to_be_visible()
    expect(page.get_by_text("Connection lost")).to_be_hidden()
    process.stop()


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
