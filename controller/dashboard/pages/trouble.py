"""The cards on top of the overview: streams that stand still or are ahead of the clock, by cause. Those that somebody
reads come first, and what a visitor has hushed has no card: a hundred devices that have ceased to write do not bury
the one stream that counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from controller.dashboard.limits import ATTENTION_CARDS, ATTENTION_NAMES, ATTENTION_STREAMS
from controller.dashboard.tables import Address
from controller.dashboard.words import (
    COLOURS,
    first_ahead,
    holder_name,
    is_held_back,
    next_step,
    number,
    still_story,
    stream_link,
    writer_link,
)
from strandline.wire.status import State, StreamStatus

_CAUSES: Final = {
    State.STALLED: "all who write them are silent",
    State.STUCK: "a writer holds the others back",
    State.HELD: "too few writers have noted",
    State.AHEAD: "their writers are ahead of the clock, or time is",
}


class Reason(NamedTuple):
    """Why somebody has to look at streams, and whether somebody reads them."""

    state: State
    is_read: bool

    @property
    def word(self) -> str:
        """As the address of a page has it."""
        return self.state.value if not self.is_read else f"{self.state.value}-read"


class Troubles:
    """The streams that somebody has to look at, as one visitor does."""

    def __init__(self, address: Address, streams: Sequence[StreamStatus], read: Collection[str]) -> None:
        """`read` are the names of streams that reader groups read."""
        self._address = address
        self._read = read
        self._hushed = frozenset(address.all("hush"))
        self._loud: dict[Reason, list[StreamStatus]] = {}
        self.hushed: list[StreamStatus] = []
        for each in streams:
            if each.state.is_urgent:
                cause = Reason(each.state, each.stream in read)
                if self._hushed.isdisjoint((cause.word, stream_link(each.stream))):
                    self._loud.setdefault(cause, []).append(each)
                else:
                    self.hushed.append(each)

    @property
    def states(self) -> list[State]:
        """The states of those that are not hushed."""
        return [each.state for streams in self._loud.values() for each in streams]

    def in_order(self, streams: Sequence[StreamStatus]) -> list[StreamStatus]:
        """All streams: those first that are urgent and are read, and those last that are hushed."""
        hushed = {each.stream for each in self.hushed}

        def rank(each: StreamStatus) -> int:
            return 2 if each.stream in hushed else 0 if each.state.is_urgent and each.stream in self._read else 1

        return sorted(streams, key=rank)

    def cards(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for cause in sorted(self._loud, key=lambda each: (not each.is_read, -each.state.gravity)):
            streams = self._loud[cause]
            many = len(streams) > ATTENTION_STREAMS
            found += [self._of_many(cause, streams)] if many else [self._of_one(each) for each in streams]
        return found[:ATTENTION_CARDS]

    def hushed_line(self) -> dict[str, str] | None:
        """What is hushed, and how to see it again."""
        if not self._hushed:
            return None
        count = len(self.hushed)
        says = "1 stream in trouble is" if count == 1 else f"{count:,} streams in trouble are"
        return {"says": f"{says} hushed: this page's address keeps that.", "link": self._address.but(hush=None)}

    def _hush(self, what: str) -> str:
        return self._address.but(hush=sorted({*self._hushed, what}))

    def _of_one(self, status: StreamStatus) -> dict[str, Any]:
        worst = status.worst
        holder = first_ahead(worst) if worst.state is State.AHEAD else holder_name(worst)
        waits = "" if holder is None else ": look at" if worst.state is State.AHEAD else ", and waits for"
        return {
            "id": status.stream,
            "count": "",
            "streams": [(status.stream, stream_link(status.stream))],
            "key": worst.key,
            "says": "is held back by" if is_held_back(worst) else f"is {status.state.text}{waits}",
            "holder": holder,
            "holder_link": writer_link(status.stream, holder) if holder is not None else "",
            "story": still_story(status),
            "next": next_step(worst),
            "colour": COLOURS[status.state],
            "hush": self._hush(stream_link(status.stream)),
        }

    def _of_many(self, cause: Reason, streams: Sequence[StreamStatus]) -> dict[str, Any]:
        shown = [(each.stream, stream_link(each.stream)) for each in streams[:ATTENTION_NAMES]]
        who = "that reader groups read" if cause.is_read else "that no reader group reads"
        return {
            "id": cause.word,
            "count": f"{number(len(streams), 'stream')} {who} are {cause.state.text}: {_CAUSES[cause.state]}",
            "link": self._address.but(streams_filter=cause.state.text, streams_page=None),
            "streams": shown,
            "more": len(streams) - len(shown),
            "colour": COLOURS[cause.state] if cause.is_read else "soft",
            "hush": self._hush(cause.word),
        }
