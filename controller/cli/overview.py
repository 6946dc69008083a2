"""One line for each stream and time key: its time, its lag, its writers, and who holds time back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.cli.client import ControllerClient, Described, describe
from controller.format import NOTHING, Times, counts, holding, key_name, lag, table
from controller.limits import STALLED_MS
from strandline.client.calls import marks
from strandline.core.config import TimeDomain
from strandline.core.note import DEFAULT_KEY
from strandline.errors import UnknownStream
from strandline.wire.streams import StreamDescription


@dataclass(frozen=True, slots=True)
class Seen:
    """A stream, the controller's clock when it was asked, and, at rest, the time it has reached. Without
    `described` it is gone."""

    name: str
    described: Described | None
    clock: int | None = None
    resting: int | None = None


@dataclass(frozen=True, slots=True)
class StreamLine:
    """A line of the table. It is `stalled` where who holds time back has not been heard from for a while."""

    cells: tuple[str, ...]
    stalled: bool = False


HEADER = ("stream", "key", "time", "lag", "writers", "held by")


def look(speaker: ControllerClient, name: str, *, must_be: bool) -> Seen:
    """Asks about a stream. Raises UnknownStream where it `must_be` there and is not."""
    try:
        asked = speaker.clocked(describe(name))
        resting = None
        if asked.value.stream.config.time_domain is TimeDomain.INGESTION and not asked.value.stream.sealed:
            latest = asked.value.stream.latest_marks.get(DEFAULT_KEY)
            resting = speaker.run(marks(name, after=latest.seq if latest else 0, limit=1)).resting
    except UnknownStream:
        if must_be:
            raise
        return Seen(name, None)
    return Seen(name, asked.value, asked.clock, resting)


def lines_of(seen: Seen, times: Times) -> list[StreamLine]:
    """A line for each time key of the stream."""
    if seen.described is None:
        return [StreamLine((seen.name, NOTHING, NOTHING, NOTHING, NOTHING, "the stream is gone"))]
    stream = seen.described.stream
    lines = []
    for key in keys_of(stream):
        mark, holder = stream.latest_marks.get(key), stream.held_by.get(key)
        time = mark.time if mark else None
        if key == DEFAULT_KEY and seen.resting is not None:
            time = seen.resting if time is None else max(time, seen.resting)
        held = "sealed" if stream.sealed else holding(holder)
        if mark is not None and not mark.complete:
            held += f"; the last mark is without {', '.join(mark.excluded)}"
        silent = holder.last_heard_ms_ago if holder is not None else None
        cells = (seen.name, key_name(key), times.show(time), lag(time, seen.clock), counts(stream.writers), held)
        lines.append(StreamLine(cells, silent is not None and silent >= STALLED_MS))
    return lines


def keys_of(stream: StreamDescription) -> list[str]:
    """The keys of a stream. Where nobody ever used the default one beside others, it only waits for writers."""
    keys = sorted(stream.held_by)
    holder = stream.held_by.get(DEFAULT_KEY)
    unused = DEFAULT_KEY not in stream.latest_marks and (holder is None or holder.writer is None)
    return [key for key in keys if key != DEFAULT_KEY] if unused and len(keys) > 1 else keys


def rows(lines: Sequence[StreamLine]) -> list[str]:
    """The table; the keys' column is left out where all are the default one."""
    keyed = any(line.cells[1] not in (key_name(DEFAULT_KEY), NOTHING) for line in lines)
    places = [place for place in range(len(HEADER)) if keyed or place != 1]
    return table([HEADER[place] for place in places], [[line.cells[place] for place in places] for line in lines])
