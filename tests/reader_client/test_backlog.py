"""Backlog of a group: by lag, by what remains, and by strategies of the caller's own."""

from __future__ import annotations

from typing import Any

from reader_client import EventReader, GroupBacklog, remaining_offsets
from strandline.client import calls

DAY_MS = 86_400_000


class Asked:
    """A reader with a backlog; `check` reads and tells the status."""

    def __init__(self, written: Any, backlog: GroupBacklog, **settings: Any) -> None:
        self.written, self.backlog = written, backlog
        self.logs = {written.stream: written.open()}
        self.reader = EventReader(
            written.controller.url, written.group(**settings), "r1", self.logs, report_ms=1, backlog=backlog
        )

    def now(self) -> int:
        clock: int = self.written.controller.run(calls.clocked(calls.describe(self.written.stream))).clock
        return clock

    def check(self, count: int = 1) -> bool:
        for _ in range(count):
            self.reader.read(20)
        return self.backlog.backlog


def test_a_group_leaves_backlog_within_its_threshold_and_stays_out(written: Any) -> None:
    changes: list[bool] = []
    asked = Asked(written(1), GroupBacklog(on_change=changes.append), backlog_threshold_ms=DAY_MS)
    with asked.reader:
        asked.written.write(("0", 1))
        assert asked.check() is True  # no watermark yet
        asked.written.note(asked.now() - 2 * DAY_MS)
        assert asked.check(4) is True
        asked.written.note(asked.now())
        while asked.check():
            pass
        assert changes == [True, False]
    asked.reader.close()


def test_what_remains_to_be_read_is_a_strategy_of_its_own(written: Any) -> None:
    changes: list[bool] = []
    asked = Asked(written(2), GroupBacklog(remaining_offsets=4, on_change=changes.append))
    asked.written.write(*[("0", n) for n in range(6)], ("1", 1))
    with asked.reader:
        assert asked.backlog.backlog is True
        assert asked.reader.window is not None
        assert remaining_offsets(asked.reader.window, asked.logs) == 7
        while asked.check():
            pass
        window = asked.reader.window
        assert remaining_offsets(window, asked.logs) <= 4
        assert changes == [True, False]


def test_a_group_whose_streams_are_idle_is_not_in_backlog(written: Any) -> None:
    asked = Asked(written(1), GroupBacklog(), backlog_threshold_ms=1)
    asked.written.write(("0", 1))
    asked.written.note(10)
    with asked.reader:
        assert asked.check() is True
        asked.written.controller.run(calls.idle(asked.written.stream, "w1"))
        while asked.check():
            pass
