"""Where events flow: writers → stream → reader groups → streams that those write in turn, as boxes that a template
draws as nested lists.

A program that reads streams and writes another one is known by its name: a writer that is called as a reader group is
this group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.dashboard.limits import FLOW_BRANCHES, FLOW_STREAMS_IN_LINE
from controller.dashboard.words import (
    Word,
    group_lag,
    group_link,
    group_state,
    number,
    state_of,
    stream_link,
    writers_word,
)
from controller.wording import NOTHING
from strandline.wire.status import GroupStatus, StreamStatus


@dataclass(frozen=True, slots=True)
class Box:
    """A box of the picture: what it is, its name, its state in a word and that word's colour, and the boxes that it
    leads to."""

    what: str
    name: str
    link: str
    state: Word
    more: str = ""
    then: tuple[Box, ...] = ()


class Flows:
    """Streams and reader groups as a visitor may see them, and how they hang together."""

    def __init__(self, streams: Sequence[StreamStatus], groups: Sequence[GroupStatus]) -> None:
        """Both in the order in which they are drawn."""
        self._streams = streams
        self._groups = {each.group for each in groups}
        self._readers: dict[str, list[GroupStatus]] = {}
        self._written: dict[str, list[StreamStatus]] = {}
        for group in groups:
            for name in group.streams:
                self._readers.setdefault(name, []).append(group)
        for stream in streams:
            for name in stream.programs:
                self._written.setdefault(name, []).append(stream)

    def roots(self) -> list[StreamStatus]:
        """The streams at which pictures begin, so that each stream is in one: those that no group writes, and of
        streams that lead back to themselves the first. Those that somebody reads come first."""
        found: list[StreamStatus] = []
        reached: set[str] = set()
        for each in sorted(self._streams, key=lambda each: bool(self._programs(each))):
            if not self._programs(each) or each.stream not in reached:
                found.append(each)
                reached.update(self._reached(each.stream))
        return sorted(found, key=lambda each: each.stream not in self._readers)

    def names(self, stream: StreamStatus) -> Iterator[str]:
        """The names of all streams and groups that a stream leads to, and its own."""
        for name in self._reached(stream.stream):
            yield name
            yield from (group.group for group in self._readers.get(name, ()))

    def _programs(self, stream: StreamStatus) -> int:
        """How many of its writers are groups."""
        return sum(name in self._groups for name in stream.programs)

    def _reached(self, name: str) -> list[str]:
        found, known = [name], {name}
        for each in found:
            for group in self._readers.get(each, ()):
                for to in self._written.get(group.group, ()):
                    if to.stream not in known:
                        known.add(to.stream)
                        found.append(to.stream)
        return found

    def picture(self, stream: StreamStatus) -> Box:
        """The writers of a stream that are no groups, counted by state, and all that it leads to."""
        programs, box = self._programs(stream), self.stream_box(stream)
        others = sum(stream.writers.values()) - programs
        text = number(others, "other writer" if programs else "writer")
        return Box("", text, f"{box.link}#writers", writers_word(stream), then=(box,)) if others > 0 else box

    def stream_box(self, stream: StreamStatus, above: tuple[str, ...] = ()) -> Box:
        """A stream with all that it leads to, up to a number of streams in line."""
        readers, more, then = self._readers.get(stream.stream, ()), "", list[Box]()
        if stream.stream in above:
            more = "as before"
        elif len(above) == FLOW_STREAMS_IN_LINE:
            more = "goes on in a picture of its own" if readers else ""
        else:
            others = stream.writer_count - self._programs(stream)
            more = f"and {number(others, 'other writer')}" if above and others > 0 else ""
            then = [self._group_box(each, (*above, stream.stream)) for each in readers]
        link, backlog = stream_link(stream.stream), sum(each.backlog for each in readers[FLOW_BRANCHES:])
        few = _few(then, "reader group", link, f"{backlog} in backlog" if backlog else "")
        return Box("stream", stream.stream, link, state_of(stream), more, few)

    def _group_box(self, group: GroupStatus, above: tuple[str, ...]) -> Box:
        """A group, how far it is behind, and the streams that it writes."""
        word = group_state(group) if group.backlog else Word(number(group.readers, "reader"), "soft")
        behind, link = group_lag(group), group_link(group.group)
        more = "" if behind == NOTHING or behind.endswith("ahead") else f"{behind} behind"
        then = [self.stream_box(each, above) for each in self._written.get(group.group, ())]
        return Box("reader group", group.group, link, word, more, _few(then, "stream", link))


def _few(boxes: list[Box], noun: str, link: str, state: str = "") -> tuple[Box, ...]:
    """The first boxes, and one that says how many more there are."""
    more = len(boxes) - FLOW_BRANCHES
    if more <= 1:  # the box that says so takes as much room
        return tuple(boxes)
    return (*boxes[:FLOW_BRANCHES], Box("", number(more, f"more {noun}"), link, Word(state, "bad")))


def lines(box: Box) -> Iterator[str]:
    """The picture in words: each way from a stream to its end."""
    here = f"{box.name} ({box.state.text})" if box.state.text else box.name
    if not box.then:
        yield here
    for each in box.then:
        for line in lines(each):
            yield f"{here} → {line}"
