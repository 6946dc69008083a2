"""How disordered events are where several segments are read by one reader: by the marks, and without them.

    python -m benchmarks.order [--seed 1] [--events 600]

Phones (see `benchmarks.disorder`) write to segments of very different sizes: half of them to one, the others to one
each. A backlog of it all is read from the head, with the bounds of the marks made at each `--mark-every-ms`:

    by the marks        the next event is from the segment that is furthest behind (PDP-28)
    most in memory      … from the one with the most fetched, which is what Pravega did before
    in turn             … from each segment in turn

Disorder is how far an event is behind the greatest event time before it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.disorder import PhoneEvent, devices_of, disorder, generate, notes, stream_of
from reader_client.progress import Progress, no_order
from strandline.core.chain import MarkChain
from strandline.core.note import Note
from strandline.core.order import Bound
from strandline.core.time_index import bound_at

STREAM = "phones"
PIECE = 100  # events of a segment that are fetched at a time


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event and its offset."""

    offset: int
    event: PhoneEvent


def skewed_segments(events: Sequence[PhoneEvent]) -> dict[str, str]:
    """Half of the devices share segment 0, the others have one each."""
    devices = devices_of(events)
    half = len(devices) // 2
    return {device: str(max(0, number - half + 1)) for number, device in enumerate(devices)}


def marks_of(events: Sequence[PhoneEvent], segments: dict[str, str], every_ms: int) -> MarkChain:
    """The marks that the devices' notes bring about, at most one in so many ms."""
    stream, marks = stream_of(events, segments), MarkChain()
    stream.configure({"mark_interval_ms": every_ms}, 0)
    for each in notes(events, segments):
        note = Note(writer=each.device, times={"": each.time}, position=each.position)
        for mark in [*stream.advance(each.at_ms), *stream.note(note, each.at_ms).marks]:
            marks.append(mark)
    return marks


def read(events: Sequence[PhoneEvent], segments: dict[str, str], bound: Bound) -> list[PhoneEvent]:
    """All of it from the head, as one reader takes it."""
    logs: dict[str, list[PhoneEvent]] = {segment: [] for segment in segments.values()}
    for each in events:
        logs[segments[each.device]].append(each)
    progress = Progress[LoggedEvent](bound)
    progress.adopt({STREAM: dict.fromkeys(logs, 0)})
    found = list[PhoneEvent]()
    while True:
        for place in progress.wanting():
            start, log = progress.cursors[place].fetched, logs[place[1]]
            piece = log[start : start + PIECE]
            fetched = [LoggedEvent(start + number, each) for number, each in enumerate(piece)]
            progress.feed(place, fetched, start + len(piece), len(log))
            if start + len(piece) == len(log):
                progress.end(place, len(log))
        taken = progress.take()
        if taken is None:
            return found
        place, placed = taken
        progress.done(place, placed.offset)
        found.append(placed.event)


def most_in_memory(events: Sequence[PhoneEvent], segments: dict[str, str]) -> list[PhoneEvent]:
    """All of it, each time from the segment with the most events fetched; pieces of one size are fetched in turn."""
    logs: dict[str, list[PhoneEvent]] = {segment: [] for segment in segments.values()}
    for each in events:
        logs[segments[each.device]].append(each)
    fetched, given, found = Counter[str](), Counter[str](), list[PhoneEvent]()
    while len(found) < len(events):
        for segment, log in logs.items():
            if given[segment] == fetched[segment]:
                fetched[segment] = min(len(log), fetched[segment] + PIECE)
        segment = max(logs, key=lambda each: (fetched[each] - given[each], each))
        found.append(logs[segment][given[segment]])
        given[segment] += 1
    return found


def table(seed: int, events: int, every_ms: int) -> Iterator[str]:
    """Disorder by each kind of reading."""
    written = generate(seed, events=events)
    segments = skewed_segments(written)
    marks = marks_of(written, segments, every_ms)

    def bound(name: str, offset: int) -> int | None:
        return bound_at(marks, name.partition("/")[2], offset)

    yield f"{'':18}{'mean':>10}{'p99':>10}{'most':>10}   ms behind"
    for name, order in [
        ("as received", list(written)),
        ("by the marks", read(written, segments, bound)),
        ("most in memory", most_in_memory(written, segments)),
        ("in turn", read(written, segments, no_order)),
    ]:
        behind = sorted(disorder(order))
        mean = sum(behind) / len(behind)
        yield f"{name:18}{mean:>10.0f}{behind[len(behind) * 99 // 100]:>10}{behind[-1]:>10}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Disorder across segments, with the order of the marks and without.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=600, help="of each device")
    parser.add_argument("--mark-every-ms", type=int, default=1_000)
    given = parser.parse_args()
    for line in table(given.seed, given.events, given.mark_every_ms):
        print(line)


if __name__ == "__main__":
    main()
