"""The code in docs/readers.md runs as it stands there, one block after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from logs import Event
from logs.sqlite import SqliteLog
from reader_client import ReaderGroup
from strandline.note import Note
from strandline.protocol import calls
from tests.served import AT_ONCE, served

PAGE = (Path(__file__).parents[2] / "docs" / "readers.md").read_text()
TIMES = [1_000, 4_000, 11_000, 9_000, 23_000, 31_000]


def test_the_page_on_readers_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    monkeypatch.chdir(tmp_path)
    with served(tmp_path / "strandline.db") as connection, SqliteLog.create("orders.log", 2) as log:
        connection.run(calls.create_stream("orders", 2, AT_ONCE))
        log.append([Event(b"%d" % time, key=b"w%d" % (time % 2)) for time in TIMES])
        position = {segment: offset for segment, offset in log.end_offsets().items() if offset}
        connection.run(calls.note("orders", Note(writer="w", times={"": 32_000}, position=position)))
        log.append([Event(b"5", key=b"dawdler")])  # late, by 32 s
        connection.run(calls.seal("orders", log.seal()))
        for name in ("counting", "strict", "pricing"):
            with ReaderGroup(connection, name) as group:
                group.create(["orders"])
        names: dict[str, Any] = {}
        said = []
        for block in blocks:
            exec(block.replace("http://127.0.0.1:8433", connection.controller), names)
            said.append(capsys.readouterr().out.splitlines())
        names["logs"]["orders"].close()
    events, windows, late, work, order, backlog, position_ = said
    assert len(events) == 8 and "nothing older than 32000 follows" in events
    assert sum(int(line.split()[-1]) for line in windows) >= 5  # 31 000 lies in a window that is still open
    assert late[0].startswith(("6 on time, 1 late", "7 on time, 0 late"))  # late once the bound was known
    assert len(work) == 8 and "W 32000" in work
    assert any("32000" in line for line in order)
    assert backlog[0] == "backlog: True"
    assert position_[-1] == "0"
