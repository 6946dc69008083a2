"""Readers of events, and what comes of them in short."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reader_client import EventReader, IdleItem, ReaderGroup, WatermarkItem
from reader_client.items import Item
from strandline.logs import StoredEvent

QUICK: dict[str, Any] = {"report_ms": 10}
WAIT_S = 60


def time_of(event: StoredEvent) -> int:
    return int(event.value or b"")


def told(item: Item) -> object:
    """An item in short: an event's time, a watermark as W…, or I… for a stream that sleeps"""
    if isinstance(item, IdleItem):
        return f"I{item.stream}"
    return f"W{item.watermark}" if isinstance(item, WatermarkItem) else time_of(item.event)


def read(reader: Any, wait_ms: float = 300) -> list[object]:
    """What comes until nothing has come for a while."""
    items = []
    while (item := reader.read(wait_ms)) is not None:
        items.append(told(item))
    return items


def next_of(reader: Any) -> Any:
    """The next item, which is sure to come."""
    item = reader.read(WAIT_S * 1_000)
    assert item is not None, "nothing came"
    return item


def lose(written: Any, group: str, reader: str) -> None:
    """Makes a reader silent for longer than it may be, and nobody else: it loses its segments."""
    with ReaderGroup(written.controller.connection, group) as asked:
        before = asked.describe().reader_timeout_ms
        asked.change(reader_timeout_ms=1)
        deadline = time.monotonic() + WAIT_S
        while any(each.owned for each in asked.describe().readers if each.reader == reader):
            assert time.monotonic() < deadline, f"{reader} is never lost"
        asked.change(reader_timeout_ms=before)


def until(reader: Any, wanted: object) -> list[object]:
    """What comes up to, and with, this."""
    items: list[object] = []
    deadline = time.monotonic() + WAIT_S
    while wanted not in items:
        assert time.monotonic() < deadline, f"{wanted} never came, but {items}"
        item = reader.read(50)
        if item is not None:
            items.append(told(item))
    return items


def share(readers: list[EventReader], counts: list[int]) -> None:
    """Lets readers ask in turn, with nothing there to read, until they own so many segments."""
    deadline = time.monotonic() + WAIT_S
    while [sum(map(len, each.positions.values())) for each in readers] != counts:
        assert time.monotonic() < deadline, f"never {counts}"
        assert [each.read(15) for each in readers] == [None] * len(readers)


@contextmanager
def reading(written: Any, group: str, name: str = "r1", **options: Any) -> Iterator[EventReader]:
    logs = {written.stream: written.open()}
    with EventReader(written.controller.connection, group, name, logs, **{**QUICK, **options}) as reader:
        yield reader


class Stepping(EventReader):
    """Reports with every read: its clock goes on by a second before each, and stands still meanwhile."""

    def __init__(self, written: Any, group: str, name: str = "r1", **options: Any) -> None:
        self._now = 0
        logs = {written.stream: written.open()}
        super().__init__(written.controller.connection, group, name, logs, now_ms=lambda: self._now, **options)

    def read(self, wait_ms: float | None = 0) -> Item | None:
        self._now += 1_000
        return super().read(0)
