"""What out-of-order events cost: a watermark of greatest event time − delay, beside one from the writers' own marks.

    python -m benchmarks.disorder [--seed 1] [--rounds 3] [--events 1200] [recorded.csv …]

The events are phones': each sends one every half second over a mobile network, and hears some time later that it was
received. `generate` makes them up from a seed. Its numbers are fitted to three recordings of JOANNEUM RESEARCH's
OoO-Dataset (dataset-d); files with these columns, `received_ms` to `acked_ms`, are measured beside it:

    event_ms ──sending──► sent_ms ──uplink──► received_ms ──downlink──► acked_ms
                                              arrival order             from here on a note may cover it

An uplink keeps the order of what it carries. It takes some time to set up, and now and then holds everything back for a
second or so: the events that waited arrive at once then. That is where most of the disorder comes from.
"""

from __future__ import annotations

import argparse
import csv
import random
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, Report, arguments, run
from strandline.core.chain import MarkChain
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.core.window import time_window

START_MS: Final = 1_700_000_000_000
PERIOD_MS: Final = 500
DELAYS_MS: Final = (1_000, 2_000, 5_000, 10_000, 60_000, 300_000)

# Fitted to the recordings: ranges from which each phone draws what it is like.
SETUP_SHARE: Final = 0.8  # of the phones begin with an uplink that is not set up yet
SETUP_MS: Final = (200.0, 2_000.0)
HOLD_EVERY_MS: Final = 1_200_000.0  # on average, a phone's uplink stands still this often …
HOLD_MS: Final = (300.0, 4_000.0)  # … for so long
UPLINK_MS: Final = (50.0, 140.0)
SLOW_UPLINK_MS: Final = (220.0, 250.0)  # one phone in eight
UPLINK_SPREAD: Final = 0.25  # standard deviation of the logarithm
DOWNLINK_MS: Final = (25.0, 100.0)
DOWNLINK_SPREAD: Final = 0.2
SENDING_MS: Final = (2.0, 8.0)
PERIOD_SPREAD_MS: Final = (1.0, 12.0)


@dataclass(frozen=True, slots=True)
class PhoneEvent:
    """One event of one device; times in epoch milliseconds. A device's event times rise with its `sequence`."""

    received_ms: int
    device: str
    sequence: int
    event_ms: int
    sent_ms: int
    acked_ms: int


# -- events --------------------------------------------------------------------------------------------------------


def generate(
    seed: int, *, devices: int = 8, events: int = 1_200, start_ms: int = START_MS, period_ms: int = PERIOD_MS
) -> list[PhoneEvent]:
    """`events` of each of `devices` phones, in the order in which they were received. Equal seeds give equal events."""
    made = [each for number in range(devices) for each in _phone(seed, number, events, start_ms, period_ms)]
    return sorted(made, key=lambda each: (each.received_ms, each.device, each.sequence))


def _phone(seed: int, number: int, events: int, start_ms: int, period_ms: int) -> Iterator[PhoneEvent]:
    draw = random.Random(f"{seed}/{number}")
    uplink = draw.uniform(*(SLOW_UPLINK_MS if draw.random() < 1 / 8 else UPLINK_MS))
    downlink, sending, spread = (draw.uniform(*each) for each in (DOWNLINK_MS, SENDING_MS, PERIOD_SPREAD_MS))
    happened = start_ms + draw.uniform(0, period_ms)
    free_at = happened + (draw.uniform(*SETUP_MS) if draw.random() < SETUP_SHARE else 0.0)  # of the uplink
    next_hold = happened + draw.expovariate(1 / HOLD_EVERY_MS)
    before = 0
    for sequence in range(events):
        sent = happened + draw.expovariate(1 / sending)
        if sent >= next_hold:
            free_at = max(free_at, sent + draw.uniform(*HOLD_MS))
            next_hold = free_at + draw.expovariate(1 / HOLD_EVERY_MS)
        received = max(sent + uplink * draw.lognormvariate(0, UPLINK_SPREAD), free_at)
        free_at = received + draw.uniform(5, 60)
        acked = received + downlink * draw.lognormvariate(0, DOWNLINK_SPREAD)
        event_ms = before = max(int(happened), before + 1)
        yield PhoneEvent(int(received), f"phone-{number}", sequence, event_ms, int(sent), int(acked))
        happened += max(1.0, draw.gauss(period_ms, spread))


def load(path: Path) -> list[PhoneEvent]:
    """A recording, in the order in which its events were received."""
    with path.open(newline="") as file:
        rows = [
            PhoneEvent(
                int(row["received_ms"]),
                row["device"],
                int(row["sequence"]),
                int(row["event_ms"]),
                int(row["sent_ms"]),
                int(row["acked_ms"]),
            )
            for row in csv.DictReader(file)
        ]
    return sorted(rows, key=lambda each: (each.received_ms, each.device, each.sequence))


def cut_off(events: Iterable[PhoneEvent], device: str, begin_ms: int, length_ms: int) -> list[PhoneEvent]:
    """The same, but one device had no network for a while: what it would have sent then arrives at the end of it."""
    end = begin_ms + length_ms
    moved = []
    for each in events:
        if each.device == device and begin_ms <= each.received_ms < end:
            each = replace(each, received_ms=end, acked_ms=end + each.acked_ms - each.received_ms)
        moved.append(each)
    return sorted(moved, key=lambda each: (each.received_ms, each.device, each.sequence))


def faster(events: Sequence[PhoneEvent], device: str, times: int) -> list[PhoneEvent]:
    """The order in which a replay reads them where it gets through one device's segment that many times as fast."""
    start = events[0].received_ms

    def read_at(each: PhoneEvent) -> float:
        return (each.received_ms - start) / (times if each.device == device else 1)

    return sorted(events, key=lambda each: (read_at(each), each.device, each.received_ms, each.sequence))


def devices_of(events: Iterable[PhoneEvent]) -> list[str]:
    return sorted({each.device for each in events})


# -- notes and marks -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotedAt:
    """What a device notes, and when: all of its events older than `time` lie below `position`."""

    at_ms: int
    device: str
    time: int
    position: Mapping[str, int]


def notes(events: Iterable[PhoneEvent], segments: Mapping[str, str]) -> list[NotedAt]:
    """The notes of all devices, oldest first: at each acknowledgement that makes the acknowledged beginning longer.

    `segments` says into which segment a device's events go; they lie there in the order of `events`.
    """
    ends: dict[str, int] = dict.fromkeys(segments.values(), 0)
    by_device: dict[str, dict[int, tuple[PhoneEvent, int]]] = {}
    for each in events:
        ends[segments[each.device]] += 1
        by_device.setdefault(each.device, {})[each.sequence] = each, ends[segments[each.device]]
    made = []
    for device, numbered in by_device.items():
        at = end = 0
        for _, (each, offset) in sorted(numbered.items()):
            at, end = max(at, each.acked_ms), max(end, offset)
            made.append(NotedAt(at, device, each.event_ms + 1, {segments[device]: end}))
    return sorted(made, key=lambda note: (note.at_ms, note.device, note.time))


def stream_of(events: Iterable[PhoneEvent], segments: Mapping[str, str]) -> Stream:
    """A stream in which every device has registered, so that no mark leaves one of them out."""
    config = StreamConfig(mark_interval_ms=0, max_ahead_ms=None)  # with the default timeout of writers
    stream = Stream("phones", config, SegmentGraph.equal_shares(len(set(segments.values())), 0), now=0)
    for device in devices_of(events):
        stream.register(device, None, 0)
    return stream


def own_segments(events: Iterable[PhoneEvent]) -> dict[str, str]:
    """A segment for each device."""
    return {device: str(number) for number, device in enumerate(devices_of(events))}


# -- losses --------------------------------------------------------------------------------------------------------


def disorder(events: Iterable[PhoneEvent]) -> list[int]:
    """How far each event is behind the greatest event time before it; 0 where it is in order."""
    found, greatest = [], None
    for each in events:
        found.append(0 if greatest is None else max(0, greatest - each.event_ms))
        greatest = each.event_ms if greatest is None else max(greatest, each.event_ms)
    return found


def lost_by_delay(events: Iterable[PhoneEvent], delay_ms: int) -> int:
    """How many events a watermark of greatest event time − delay would drop, read in this order."""
    return sum(behind > delay_ms for behind in disorder(events))


@dataclass(frozen=True, slots=True)
class Marked:
    """How a reader fared with the marks: events dropped, and how far the bound was behind the clock, at the median."""

    lost: int
    lag_ms: float | None


def lost_by_marks(events: Sequence[PhoneEvent], reading: Sequence[PhoneEvent] | None = None) -> Marked:
    """How many events a watermark from marks would drop: read live, or replayed in another order, `reading`."""
    segments = own_segments(events)
    stream, marks = stream_of(events, segments), MarkChain()
    pending = iter([*notes(events, segments), None])
    upcoming, position, lags, lost = next(pending), dict.fromkeys(segments.values(), 0), list[int](), 0
    for each in events if reading is None else reading:
        while upcoming is not None and (reading is not None or upcoming.at_ms <= each.received_ms):
            note = Note(writer=upcoming.device, times={"": upcoming.time}, position=upcoming.position)
            for mark in stream.note(note, 0).marks:
                marks.append(mark)
            upcoming = next(pending)
        lower = time_window(marks, stream.graph.cut(position), None).lower
        if lower is not None:
            lost += each.event_ms < lower
            lags.append(each.received_ms - lower)
        position[segments[each.device]] += 1
    return Marked(lost, statistics.median(lags) if lags and reading is None else None)


# -- the table -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compared:
    """What both kinds of watermark lost of one way to read."""

    name: str
    events: int
    marked: Marked
    by_delay: Mapping[int, int]
    disordered: float  # share of the events that were out of order


def compared(events: Sequence[PhoneEvent]) -> Iterator[Compared]:
    """Losses as it happened, with a device cut off, and replayed unevenly."""
    device = devices_of(events)[0]
    middle = events[len(events) // 2].received_ms
    away = cut_off(events, device, middle, 60_000)
    cases: list[tuple[str, Sequence[PhoneEvent], Sequence[PhoneEvent] | None]] = [
        ("as it happened", events, None),
        ("one cut off for 60 s", away, None),
        ("one read 4 times as fast", events, faster(events, device, 4)),
    ]
    for name, written, reading in cases:
        behind = disorder(written if reading is None else reading)
        lost = {delay: sum(each > delay for each in behind) for delay in DELAYS_MS}
        share = sum(each > 0 for each in behind) / len(behind)
        yield Compared(name, len(written), lost_by_marks(written, reading), lost, share)


def table(cases: Iterable[Compared]) -> Iterator[str]:
    titles = "".join(f"{f'−{delay // 1000} s':>8}" for delay in DELAYS_MS)
    yield f"{'':26}{'marks':>7}{titles}   out of order   median lag of marks"
    for case in cases:
        lost = "".join(f"{each:>8}" for each in case.by_delay.values())
        lag = "" if case.marked.lag_ms is None else f"{case.marked.lag_ms / 1000:.2f} s"
        yield f"{case.name:26}{case.marked.lost:>7}{lost}   {case.disordered:>12.0%}   {lag:>19}"


def measure(options: argparse.Namespace) -> Report:
    seeds = range(options.seed, options.seed + options.rounds)
    sets = [(f"seed {seed}", generate(seed, events=options.events)) for seed in seeds]
    sets += [(path.name, load(path)) for path in options.recordings]
    found = list[Compared]()
    for name, events in sets:
        print(f"{name}: {len(events)} events of {len(devices_of(events))} devices; lost by marks, and by a delay of …")
        cases = list(compared(events))
        for line in table(cases):
            print(line)
        print()
        found += cases
    return Report([_over_all(name, found) for name in dict.fromkeys(case.name for case in found)])


def _over_all(name: str, found: Iterable[Compared]) -> Figure:
    """What was lost of all sets in one way to read."""
    cases = [case for case in found if case.name == name]
    by_delay = {delay // 1000: sum(case.by_delay[delay] for case in cases) for delay in DELAYS_MS}
    events, lost = sum(case.events for case in cases), sum(case.marked.lost for case in cases)
    return Figure.lost(f"events lost by marks, {name}", lost, events, by_delay)


def main() -> None:
    parser = arguments(__doc__, seed=1, rounds=3, events=1_200)
    parser.add_argument("recordings", nargs="*", type=Path)
    run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
