"""A store whose clock ran ahead is set back to the host's: time goes on there, and nothing that was promised breaks."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from controller.cli import main
from controller.storage.database import set_clock_back
from controller.storage.refusals import AlreadyServed, CannotRewind, NoStore, StoreAway
from tests.served import InProcess, ManualClock

SECOND, DAY = 1_000, 86_400_000


@pytest.fixture
def ahead() -> ManualClock:
    """A host that started three days ahead."""
    clock = ManualClock()
    clock.wall_ahead_ms = 3 * DAY
    return clock


def clock_of(controller: InProcess) -> int:
    return int(controller.request("GET", "/healthz").headers["strandline-time"])


def note_each_second(controller: InProcess, clock: ManualClock, seconds: range) -> list[dict[str, Any]]:
    """Two writers, who take their time from elsewhere; returns the marks of that time."""
    before = controller.marks("s")
    for number in seconds:
        for writer in ("w0", "w1"):
            controller.note(writer, clock.now, {writer[1:]: number})
        controller.pass_time(SECOND)
    return list(controller.marks("s")[len(before) :])


def test_after_a_rewind_marks_and_timeouts_follow_the_host_clock(store_url: str, ahead: ManualClock) -> None:
    with InProcess(store_url, ahead) as controller:
        controller.call("PUT", "/v1/streams/s", {"segments": 2, "writer_timeout_ms": 5_000})
        note_each_second(controller, ahead, range(1, 6))
        assert clock_of(controller) == ahead.now + 3 * DAY
    ahead.wall_ahead_ms = 0
    with InProcess(store_url, ahead) as controller:
        assert clock_of(controller) > ahead.now + 2 * DAY  # a restart does not help

    rewound = set_clock_back(store_url, ahead.wall())

    assert 3 * DAY <= rewound.by_ms < 3 * DAY + 60 * SECOND and rewound.streams == 1
    with InProcess(store_url, ahead) as controller:
        assert clock_of(controller) == ahead.now
        marks = note_each_second(controller, ahead, range(6, 16))
        assert len(marks) >= 9 and all(mark["complete"] for mark in marks)
        assert all(abs(mark["created_at"] - ahead.now) < 60 * SECOND for mark in marks)
        for number in range(16, 26):  # w1 is silent from here on, and its timeout passes as ever
            controller.note("w0", ahead.now, {"0": number})
            controller.pass_time(SECOND)
        assert controller.marks("s")[-1]["excluded"] == ["w1"]
    assert set_clock_back(store_url, ahead.wall() + DAY).by_ms == 0


def test_silence_continues_over_a_rewind_without_the_time_between(store_url: str, ahead: ManualClock) -> None:
    with InProcess(store_url, ahead) as controller:
        controller.call("PUT", "/v1/streams/s", {"segments": 2, "writer_timeout_ms": 60_000})
        note_each_second(controller, ahead, range(1, 3))
        controller.pass_time(9 * SECOND)
    ahead.wall_ahead_ms = 0
    set_clock_back(store_url, ahead.wall())
    with InProcess(store_url, ahead) as controller:
        held = controller.note("w0", ahead.now, {"0": 9})["held_by"]
        assert held["writer"] == "w1" and 9 * SECOND <= held["last_heard_ms_ago"] <= 12 * SECOND


def test_an_open_stream_in_ingestion_time_is_named_and_nothing_is_changed(store_url: str, ahead: ManualClock) -> None:
    with InProcess(store_url, ahead) as controller:
        controller.call("PUT", "/v1/streams/s", {"segments": 2})
        controller.call("PUT", "/v1/streams/clicks", {"segments": 1, "time_domain": "ingestion"})
        report = {"reporter": "t", "time": clock_of(controller), "position": {"0": 5}}
        controller.call("POST", "/v1/streams/clicks/tail", report)
    ahead.wall_ahead_ms = 0
    with pytest.raises(CannotRewind, match=r"'clicks'\): seal or delete"):
        set_clock_back(store_url, ahead.wall())
    with InProcess(store_url, ahead) as controller:
        assert clock_of(controller) > ahead.now + 2 * DAY
        controller.call("POST", "/v1/streams/clicks/seal", {"final": {"0": 5}})
    assert set_clock_back(store_url, ahead.wall()).streams == 2


def test_who_serves_the_store_keeps_it(tmp_path: Path) -> None:
    with InProcess(tmp_path / "store.db", ManualClock()), pytest.raises(AlreadyServed):
        set_clock_back(str(tmp_path / "store.db"), 0)


def test_a_stream_that_cannot_be_read_is_named_and_nothing_is_changed(tmp_path: Path, ahead: ManualClock) -> None:
    path = tmp_path / "store.db"
    with InProcess(path, ahead) as controller:
        controller.call("PUT", "/v1/streams/s", {"segments": 2})
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE stream SET config = '{'")
        rows = connection.execute("SELECT count(*) FROM served").fetchone()
    with pytest.raises(StoreAway, match=r"it cannot be read.*strandline check"):
        set_clock_back(str(path), 0)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM served").fetchone() == rows


def test_the_command_tells_what_it_did_and_the_store_is_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own_process: Any
) -> None:
    path = tmp_path / "store.db"
    with pytest.raises(NoStore):
        set_clock_back(str(path), 0)
    clock = ManualClock(2_000_000_000_000)  # the year 2033
    with InProcess(path, clock) as controller:
        controller.call("PUT", "/v1/streams/s", {"segments": 2})
        controller.note("w0", 5, {"0": 1})

    assert main(["rewind", "--database", str(path)]) == 0
    told = capsys.readouterr().out
    assert re.search(r"store\.db was \d+ d \d+ h ahead, in 1 streams: it begins at 20\d\d-", told), told
    assert main(["rewind", "--database", str(path)]) == 0
    assert "nothing was changed" in capsys.readouterr().out
    assert main(["check", "--database", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    with own_process(path) as served:
        assert served.url
