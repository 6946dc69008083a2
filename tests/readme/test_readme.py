"""What the README shows works as it stands there: its stream and its writer on a controller, its numbers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks.disorder import (
    DELAYS_MS,
    PhoneEvent,
    cut_off,
    devices_of,
    disorder,
    faster,
    generate,
    lost_by_marks,
)
from tests.readme.pages import blocks_of

ROOT = Path(__file__).parents[2]
STRANDLINE = str(Path(sys.executable).with_name("strandline"))
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return [block.text for block in blocks_of("README.md") if block.language == language]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where a controller listens that was started as the README says, but for the port."""
    (serve,) = [line for block in blocks("sh") for line in block.splitlines() if line.endswith("strandline serve")]
    command = [STRANDLINE, *serve.split()[1:], "--port", "0"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        ready = re.search(r"http://(127\.0\.0\.1:\d+)", process.stdout.readline())
        assert ready is not None, "the controller did not start"
        yield ready[1]
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert (tmp_path / "strandline.db").is_file()


def test_the_readme_creates_a_stream_and_its_writer_notes(address: str, tmp_path: Path) -> None:
    (create,) = [line.split() for block in blocks("sh") for line in block.splitlines() if "strandline create" in line]
    created = subprocess.run([STRANDLINE, *create[1:], "--controller", f"http://{address}"], check=False)
    assert created.returncode == 0
    described = httpx.get(f"http://{address}/v1/streams/orders").raise_for_status().json()
    assert len(described["segments"]) == 2
    script = tmp_path / "writer.py"
    (program,) = blocks("python")
    script.write_text(program.replace("127.0.0.1:8433", address))
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "2023-11-14 22:13:40+00:00\n"
    (mark,) = httpx.get(f"http://{address}/v1/streams/orders/marks").raise_for_status().json()["marks"]
    assert mark["time"] == 1_700_000_020_000
    page = httpx.get(f"http://{address}/")
    assert page.is_success and "orders" in page.text


def test_what_a_delay_loses_is_what_comes_out() -> None:
    events = generate(2)
    device, middle = devices_of(events)[0], events[len(events) // 2].received_ms
    away, uneven = cut_off(events, device, middle, 60_000), faster(events, device, 4)
    cases = {
        "as it happened": [lost_by_marks(events).lost, *by_delay(events)],
        "one phone without": [lost_by_marks(away).lost, *by_delay(away)],
        "replayed, one": [lost_by_marks(events, uneven).lost, *by_delay(uneven)],
    }
    readers = (ROOT / "docs" / "readers.md").read_text()
    for name, lost in cases.items():
        (line,) = [line for line in readers.splitlines() if line.startswith(f"| {name}")]
        shown = [cell.strip().replace(" ", "") for cell in line.split("|")[2:-1]]
        assert shown == [str(each) for each in lost], line


def by_delay(events: list[PhoneEvent]) -> list[int]:
    return [sum(each > delay for each in disorder(events)) for delay in DELAYS_MS]
