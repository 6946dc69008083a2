"""What docs/kafka.md shows works as it stands there, on a real broker and a real controller."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from controller.cli import make_parser
from strandline.protocol import calls
from tests.kafka import Kafka
from tests.served import served

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kafka.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_code_of_the_page_notes_what_it_says(kafka: Kafka, tmp_path: Path) -> None:
    kafka.create_topic("orders", 1)
    with served(tmp_path / "store.db") as connection:
        code = "\n".join(blocks("python")).replace("http://127.0.0.1:8433", connection.controller)
        script = tmp_path / "page.py"
        script.write_text(code.replace("127.0.0.1:9092", kafka.servers))
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)}
        )
        assert done.returncode == 0, done.stderr
        described = connection.run(calls.describe("orders"))
        writers = httpx.get(f"{connection.controller}/v1/streams/orders/writers").json()["writers"]
    assert [segment.segment.id for segment in described.segments] == ["0"]
    noted = {each["writer"]: (each["times"][""], each["position"]) for each in writers}
    assert noted == {
        "w1": (1700000000001, {"0": 1}),
        "w2": (1700000000003, {"0": 2}),
        "w3": (1700000000004, {"0": 42}),
    }


@pytest.mark.parametrize("line", [line for block in blocks("sh") for line in block.splitlines()])
def test_the_commands_of_the_page_are_ones_that_the_parser_takes(line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "strandline"
    assert make_parser().parse_args(words).command == "tail"
