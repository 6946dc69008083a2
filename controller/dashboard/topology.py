"""Where events flow: writers → stream → reader groups → streams that those write in turn, as boxes that a template
draws as nested lists.

A program that reads streams and writes another one is known by its name: a writer that is called as a reader group is
this group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

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

_NO_WORD: Final = Word("", "soft")


@dataclass(frozen=True, slots=True)
class Box:
    """A box of the picture: what it is, its name, and its state in a word and that word's colour. `then` are the boxes
    that it leads to, or for a source those that lead to it."""

    what: str
    name: str
    link: str
    state: Word = _NO_WORD
    more: str = ""
    then: tuple[Box, ...] = ()


class Flows:
    """Streams and reader groups as a visitor may see them, and how they hang together."""

    def __init__(self, streams: Sequence[StreamStatus], groups: Sequence[GroupStatus]) -> None:
        """Both in the order in which they are drawn."""
        self._streams = {each.stream: each for each in streams}
        self._groups = {each.group: each for each in groups}
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
        found = [each for each in self._streams.values() if not self.groups_that_write(each)]
        reached = {name for each in found for name in self._reached(each.stream)}
        for each in self._streams.values():
            if each.stream not in reached:
                found.append(each)
                reached.update(self._reached(each.stream))
        return sorted(found, key=lambda each: each.stream not in self._readers)

    def groups_that_write(self, stream: StreamStatus) -> list[GroupStatus]:
        return [self._groups[name] for name in stream.programs if name in self._groups]

    def names(self, stream: StreamStatus) -> Iterator[str]:
        """The names of all streams and groups that a stream leads to, and its own."""
        for name in self._reached(stream.stream):
            yield name
            yield from (group.group for group in self._readers.get(name, ()))

    def _reached(self, name: str) -> list[str]:
        found, waiting = {name: None}, [name]
        while waiting:
            for group in self._readers.get(waiting.pop(), ()):
                for stream in self._written.get(group.group, ()):
                    if stream.stream not in found:
                        found[stream.stream] = None
                        waiting.append(stream.stream)
        return list(found)

    def stream_box(self, stream: StreamStatus, above: tuple[str, ...] = ()) -> Box:
        """A stream with all that it leads to, up to a number of streams in line."""
        readers = self._readers.get(stream.stream, ())
        groups = [self._group_box(each, (*above, stream.stream)) for each in readers]
        backlog = sum(each.backlog for each in readers[FLOW_BRANCHES:])
        then = _few(groups, "reader group", stream_link(stream.stream), f"{backlog} in backlog" if backlog else "")
        others = stream.writer_count - len(self.groups_that_write(stream))
        return _plain(stream, f"and {number(others, 'other writer')}" if above and others > 0 else "", then)

    def _group_box(self, group: GroupStatus, above: tuple[str, ...]) -> Box:
        then = [self._next_box(each, above) for each in self._written.get(group.group, ())]
        return _reading(group, _few(then, "stream", group_link(group.group)))

    def _next_box(self, stream: StreamStatus, above: tuple[str, ...]) -> Box:
        if stream.stream in above:
            return _plain(stream, "as before")
        if len(above) == FLOW_STREAMS_IN_LINE:
            return _plain(stream, "goes on on its page" if stream.stream in self._readers else "")
        return self.stream_box(stream, above)

    def sources(self, stream: StreamStatus) -> list[Box]:
        """What leads to a stream: groups, with the streams that they read, and how many other writers by state."""
        groups = self.groups_that_write(stream)
        boxes = []
        for group in groups:
            read = [_plain(self._streams[name]) for name in group.streams if name in self._streams]
            boxes.append(_reading(group, _few(read, "stream", group_link(group.group))))
        others = sum(stream.writers.values()) - len(groups)
        if others > 0:
            noun = "other writer" if groups else "writer"
            word = _NO_WORD if groups else writers_word(stream)
            boxes.append(Box("", number(others, noun), f"{stream_link(stream.stream)}#writers", word))
        return boxes


def _plain(stream: StreamStatus, more: str = "", then: tuple[Box, ...] = ()) -> Box:
    return Box("stream", stream.stream, stream_link(stream.stream), state_of(stream), more, then)


def _reading(group: GroupStatus, then: tuple[Box, ...]) -> Box:
    """A group, and how far it is behind."""
    word = group_state(group) if group.backlog else Word(number(group.readers, "reader"), "soft")
    behind = group_lag(group)
    more = "" if behind == NOTHING or behind.endswith("ahead") else f"{behind} behind"
    return Box("reader group", group.group, group_link(group.group), word, more, then)


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
