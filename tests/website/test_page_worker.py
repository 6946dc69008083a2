"""A page that is a file has a worker, in which the search of the web pages runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.website import OUR_WORKER, THEIR_WORKER, searchable_as_files

pytestmark = pytest.mark.full

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGE = f"""<!doctype html>
<script src="{THEIR_WORKER}"></script>
<p data-md-component="content"></p>
<script>
  const worker = new Worker("worker.js");
  worker.onmessage = (event) => (document.querySelector("p").textContent += event.data);
  worker.postMessage("what was posted at once");
</script>
"""
WORKER = 'self.onmessage = (event) => self.postMessage(event.data + ", and what the worker said");'


def test_a_page_that_is_a_file_talks_with_its_worker(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "page.html").write_text(PAGE)
    (folder / "worker.js").write_text(WORKER)
    searchable_as_files(tmp_path)
    assert f'src="../{OUR_WORKER}"' in (folder / "page.html").read_text()
    page = browser.new_page()
    page.goto((folder / "page.html").as_uri())
    page.get_by_text("what was posted at once, and what the worker said").wait_for()
    page.evaluate("worker.terminate()")
    page.close()
