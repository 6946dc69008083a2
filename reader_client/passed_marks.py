"""What the window of a group means for a reader, where marks left writers out.

The group's window has of each stream and key whether its bound is complete. Only where it is not, the reader fetches
the marks up to that bound, from the last complete one on: they say who is left out, and since when. What follows from
that depends on the window and the marks alone, so a restart and a replay go by the same watermark.

    go_on    the window as it is; watermarks name the writers
    wait     bounds are those of the last complete mark
    fail     WritersLeftOut, if no complete mark follows yet; else as `wait`, until the reader has come to that mark
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec import structs

from reader_client.event_windows import LeftOut
from reader_client.jobs import Job
from strandline.client import calls
from strandline.client.completeness import CompletenessReader
from strandline.client.loop import remote
from strandline.core.incomplete import Completeness, OnIncomplete, names
from strandline.errors import WritersLeftOut
from strandline.paced_log import PacedLog
from strandline.wire.groups import GroupWindow, KeyWindow, StreamWindow
from strandline.wire.streams import WireMark

NOBODY: Final[LeftOut] = {}
NO_BOUNDS: Final = KeyWindow(None, None, complete=True)

Place: TypeAlias = tuple[str, str]  # a stream, and one of its time keys


@dataclass(frozen=True, slots=True)
class Judged:
    """The window that a reader goes by, and whom its bounds leave out, by stream and key."""

    window: GroupWindow
    left_out: Mapping[Place, LeftOut]


class PassedMarks:
    """The marks of all streams of a group, as far as a reader has to know them."""

    def __init__(self, policy: OnIncomplete, log: PacedLog) -> None:
        self._policy, self._log = policy, log
        self._marks: dict[Place, _Marks] = {}

    def judge(self, window: GroupWindow) -> Job[Judged]:
        """Judges a window. Logs a line when its bounds begin to leave writers out, and when they cease to. Raises
        WritersLeftOut under the policy `fail`."""
        lowers: dict[Place, int | None] = {}  # where marks leave writers out
        left_out: dict[Place, LeftOut] = {}
        for stream, each in window.streams.items():
            for key in {**each.keys, **({} if each.set_aside is None else each.set_aside.until)}:
                place, bounds = (stream, key), each.keys.get(key, NO_BOUNDS)
                marks = self._marks.setdefault(place, _Marks(*place, self._policy))
                watermark, is_left_out = window.watermarks.get(key), stream in window.idle
                found = yield from marks.upto(bounds, each, watermark, is_left_out=is_left_out)
                if self._policy is OnIncomplete.FAIL:
                    if found.there and not marks.complete_follows:
                        marks.ask_again()
                        raise WritersLeftOut(
                            stream=stream, writers=names(found.there), time=found.last or 0, complete=found.watermark
                        )
                else:
                    for kind, line in marks.news(found):
                        self._log.warn(f"{place} {kind}", line)
                if found.there:
                    lowers[place], left_out[place] = found.watermark, found.there
        if self._policy is OnIncomplete.GO_ON or not lowers:
            return Judged(window, left_out)
        return Judged(_held_at(window, lowers), {})


def _held_at(window: GroupWindow, lowers: Mapping[Place, int | None]) -> GroupWindow:
    """The window with these bounds of streams, which also hold the watermarks of all streams."""
    watermarks, streams = dict(window.watermarks), dict(window.streams)
    for (stream, key), lower in lowers.items():
        keys = streams[stream].keys
        streams[stream] = structs.replace(
            streams[stream], keys={**keys, key: structs.replace(keys.get(key, NO_BOUNDS), lower=lower, upper=None)}
        )
        watermark = watermarks.get(key)
        watermarks[key] = None if lower is None or watermark is None else min(watermark, lower)
    held = {stream for stream, _ in lowers}
    idle = tuple([stream for stream in window.idle if stream not in held])
    return structs.replace(window, streams=streams, watermarks=watermarks, idle=idle)


class _Marks:
    """The marks of one stream and key, up to the last bound that was judged."""

    def __init__(self, stream: str, key: str, policy: OnIncomplete) -> None:
        self._stream, self._key = stream, key
        self._policy = OnIncomplete.GO_ON if policy is OnIncomplete.GO_ON else OnIncomplete.WAIT
        self._told = Completeness(f"{stream}, {key}" if key else stream, policy)
        self._here = self._new()
        self._passed = CompletenessReader(stream, self._policy)
        self._lower: int | None = None  # of the last bound that left writers out
        self.complete_follows = False  # whether there is a complete mark after that bound

    def _new(self) -> Completeness:
        return Completeness(self._stream, self._policy)

    def upto(
        self, bounds: KeyWindow, stream: StreamWindow, watermark: int | None, *, is_left_out: bool
    ) -> Job[Completeness]:
        """The marks up to the bound of a group's window in this stream; the group's `watermark` is that of all. Where
        the group goes on without the stream, it has read all of it but what the writers that are set aside wrote."""
        here = self._new()
        if stream.end_of_stream and stream.set_aside is None:  # it has all that it will ever have
            return here
        if bounds.lower is not None and bounds.complete:
            here.pass_mark(bounds.lower)
        elif bounds.lower is not None:
            if bounds.lower != self._lower:
                yield from self._fetch(bounds.lower)
                self._lower = bounds.lower
            here = deepcopy(self._here)
        aside = stream.set_aside
        if watermark is not None and aside is not None and (until := aside.until.get(self._key)) is not None:
            self.complete_follows = False
            here.pass_mark(min(until, watermark), {*here.left_out, *aside.writers})
        if watermark is not None and is_left_out:
            here.pass_mark(watermark)
        return here

    def ask_again(self) -> None:
        """Asks about the last bound again at the next call."""
        self._lower = None

    def news(self, here: Completeness) -> list[tuple[str, str]]:
        """The lines for the log that say what began or ceased since the last call, each with its kind."""
        last, there = here.last, here.there
        if last is None:
            return []
        before = [time for time in there.values() if time is not None]
        changes = self._told.pass_mark(min(before)) if len(before) == len(there) and before else []
        changes = changes + self._told.pass_mark(last, there)
        kinds = [type(change).__name__ for change in changes]
        return list(zip(kinds, self._told.lines(changes), strict=True))

    def _fetch(self, lower: int) -> Job[None]:
        """Passes the marks up to `lower`, from the last complete one on."""
        around = yield from remote(calls.marks_at(self._stream, lower, key=self._key))
        floor, self.complete_follows = around.floor, around.complete
        here = yield from self._passed.upto(0 if floor is None else floor.seq, self._read)
        here.pass_mark(lower, here.left_out, complete=False)  # of a stream at rest, after all marks
        self._here = here

    def _read(self, after: int, limit: int) -> Job[tuple[WireMark, ...]]:
        return (yield from remote(calls.marks(self._stream, key=self._key, after=after, limit=limit))).marks
