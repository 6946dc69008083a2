"""Out-of-order events of phones, made up and recorded, through a log, the controller and readers: none is late, and a
replay from the head closes the same windows as the live run did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks.disorder import PhoneEvent, cut_off, devices_of, generate, lost_by_delay, notes
from reader_client import EventItem, EventReader, EventWindows, Session, Sliding, Tumbling
from reader_client.event_windows import WindowKind
from strandline.client import calls
from strandline.core.note import Note
from strandline.errors import StrandlineError
from strandline.logs import Event, StoredEvent
from tests.served import AT_ONCE

SEGMENTS = 3
CHUNK = 100  # events between two looks of the live reader


def time_of(event: StoredEvent) -> int:
    return int((event.value or b"").split()[1])


class Counting:
    """A job that counts events in windows of several kinds, each by phone."""

    def __init__(self) -> None:
        self.kinds: list[WindowKind] = [Tumbling(5_000), Sliding(10_000, 2_500), Session(700)]
        self.windows = [EventWindows[bytes](kind) for kind in self.kinds]
        self.closed: Counter[object] = Counter()
        self.late = 0
        self.events = 0

    def see(self, item: Any) -> None:
        if isinstance(item, EventItem):
            self.events += 1
            phone, _ = (item.event.value or b"").split()
            for windows in self.windows:
                self.late += not windows.add(time_of(item.event), item.event.value or b"", phone)
        else:
            self.close(item.watermark)

    def close(self, lower: int | None) -> None:
        for kind, windows in zip(self.kinds, self.windows, strict=True):
            for each in windows.finish() if lower is None else windows.advance(lower):
                self.closed[kind, each.start, each.end, each.key, tuple(sorted(each.events))] += 1


def reader_of(written: Any, **options: Any) -> EventReader:
    logs = {written.stream: written.open()}
    return EventReader(
        written.controller.connection,
        written.group(),
        "r1",
        logs,
        time_domain="event",
        event_time=time_of,
        report_ms=2,
        **options,
    )


def live(written: Any, events: Sequence[PhoneEvent]) -> Counting:
    """Writes events as they were received, and notes as they were acknowledged, with a reader that keeps up."""
    segments = {device: str(n % SEGMENTS) for n, device in enumerate(devices_of(events))}
    for device in segments:
        written.controller.run(calls.register(written.stream, device))
    pending, job = notes(events, segments), Counting()
    with reader_of(written) as reader:
        for begin in range(0, len(events), CHUNK):
            chunk = events[begin : begin + CHUNK]
            values = [(f"{each.device} {each.event_ms}".encode(), segments[each.device]) for each in chunk]
            written.log.append([Event(value, segment=segment) for value, segment in values])
            written.log.flush()
            due = sum(each.at_ms <= chunk[-1].received_ms for each in pending)
            tell(written, pending[:due])
            del pending[:due]
            while (item := reader.read(3)) is not None:
                job.see(item)
        tell(written, pending)
        written.seal()
        for item in reader:
            job.see(item)
        job.close(None)
        assert reader.late.total == 0
    return job


def tell(written: Any, noted: Sequence[Any]) -> None:
    """Notes, many at once."""
    made = [Note(writer=each.device, times={"": each.time}, position=each.position) for each in noted]
    if made:
        answers = written.controller.run(calls.notes(written.stream, made))
        assert not [answer for answer in answers if isinstance(answer, StrandlineError) or answer.late]


def replayed(written: Any, **options: Any) -> Counting:
    job = Counting()
    with reader_of(written, **options) as reader:
        for item in reader:
            job.see(item)
        job.close(None)
        assert reader.late.total == 0
    return job


@pytest.fixture(scope="module")
def phones() -> list[PhoneEvent]:
    """Four phones for a minute; one of them has no network for 20 s of it."""
    events = generate(5, devices=4, events=120)
    return cut_off(events, "phone-1", events[150].received_ms, 20_000)


def test_a_replay_from_the_head_closes_the_windows_of_the_live_run(
    written_anywhere: Any, phones: list[PhoneEvent]
) -> None:
    written = written_anywhere(SEGMENTS, AT_ONCE)
    once = live(written, phones)
    assert (once.events, once.late) == (len(phones), 0)
    assert len(once.closed) > 100
    for ordered in (True, False):
        again = replayed(written, ordered=ordered)
        assert (again.events, again.late) == (len(phones), 0)
        assert again.closed == once.closed
    assert lost_by_delay(phones, 10_000) > 10  # what the usual watermark would have dropped
