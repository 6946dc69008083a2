"""Where events flow: writers → stream → reader groups → streams that those write in turn, as a picture of nested lists.

A program that reads streams and writes another one is known by its name: a writer that is called as a reader group is
this group. Screen readers read the lists; the style sheet draws them from left to right, with arrows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from controller.dashboard.labels import group_link, state_of, stream_link, writer_link, writer_state
from controller.dashboard.limits import FLOW_BRANCHES, FLOW_STREAMS_IN_LINE, FLOW_WRITERS
from controller.format import NOTHING, counts, lag
from controller.status.stream_status import GroupStatus, StreamStatus, WriterStatus
from strandline.core.writer import WriterState


@dataclass(frozen=True, slots=True)
class Box:
    """A box of the picture: what it is, its name, and its state in a word and that word's colour. `then` are the boxes
    that it leads to, or for a source those that lead to it."""

    what: str
    name: str
    link: str
    state: str = ""
    colour: str = "sl-soft"
    more: str = ""
    then: tuple[Box, ...] = ()


class Flows:
    """Streams and reader groups as a visitor may see them, and how they hang together."""

    def __init__(self, streams: Sequence[StreamStatus], groups: Sequence[GroupStatus]) -> None:
        """Both in the order in which they are drawn."""
        self._streams = {each.name: each for each in streams}
        self._groups = {each.name: each for each in groups}
        self._readers: dict[str, list[GroupStatus]] = {}
        self._written: dict[str, list[StreamStatus]] = {}
        for group in groups:
            for name in group.window.streams:
                self._readers.setdefault(name, []).append(group)
        for stream in streams:
            for name in stream.programs:
                self._written.setdefault(name, []).append(stream)

    def roots(self) -> list[StreamStatus]:
        """The streams at which pictures begin, so that each stream is in one: those that no group writes, and of
        streams that lead back to themselves the first. Those that somebody reads come first."""
        found = [each for each in self._streams.values() if not self.groups_that_write(each)]
        reached = {name for each in found for name in self._reached(each.name)}
        for each in self._streams.values():
            if each.name not in reached:
                found.append(each)
                reached.update(self._reached(each.name))
        return sorted(found, key=lambda each: each.name not in self._readers)

    def groups_that_write(self, stream: StreamStatus) -> list[GroupStatus]:
        return [self._groups[name] for name in stream.programs if name in self._groups]

    def names(self, stream: StreamStatus) -> Iterator[str]:
        """The names of all streams and groups that a stream leads to, and its own."""
        for name in self._reached(stream.name):
            yield name
            yield from (group.name for group in self._readers.get(name, ()))

    def _reached(self, name: str) -> list[str]:
        found, waiting = {name: None}, [name]
        while waiting:
            for group in self._readers.get(waiting.pop(), ()):
                for stream in self._written.get(group.name, ()):
                    if stream.name not in found:
                        found[stream.name] = None
                        waiting.append(stream.name)
        return list(found)

    def stream_box(self, stream: StreamStatus, above: tuple[str, ...] = ()) -> Box:
        """A stream with all that it leads to, up to a number of streams in line."""
        readers = self._readers.get(stream.name, ())
        groups = [self._group_box(each, (*above, stream.name)) for each in readers]
        backlog = sum(each.window.backlog for each in readers[FLOW_BRANCHES:])
        then = _few(groups, "reader group", stream_link(stream.name), f"{backlog} in backlog" if backlog else "")
        others = stream.writer_count - len(self.groups_that_write(stream))
        return _plain(stream, f"and {_number(others, 'other writer')}" if above and others > 0 else "", then)

    def _group_box(self, group: GroupStatus, above: tuple[str, ...]) -> Box:
        then = [self._next_box(each, above) for each in self._written.get(group.name, ())]
        return _reading(group, _few(then, "stream", group_link(group.name)))

    def _next_box(self, stream: StreamStatus, above: tuple[str, ...]) -> Box:
        if stream.name in above:
            return _plain(stream, "as before")
        if len(above) == FLOW_STREAMS_IN_LINE:
            return _plain(stream, "goes on on its page" if stream.name in self._readers else "")
        return self.stream_box(stream, above)

    def sources(self, stream: StreamStatus, writers: Sequence[WriterStatus], states: Mapping[str, int]) -> list[Box]:
        """What leads to a stream: groups, with the streams that they read, and the first of its other writers; of all
        others how many they are by state."""
        boxes, told, left = [], set(), Counter(states)
        for group in self.groups_that_write(stream):
            read = [_plain(self._streams[name]) for name in group.window.streams if name in self._streams]
            boxes.append(_reading(group, _few(read, "stream", group_link(group.name))))
            told.add(group.name)
        for each in writers:
            if each.name not in told and len(boxes) < FLOW_WRITERS:
                said = writer_state(each.state)
                link = writer_link(stream.name, each.name)
                boxes.append(Box("writer", each.name, link, said["state"], said["state_class"]))
                told.add(each.name)
        left.subtract(str(each.state) for each in writers if each.name in told)
        return [*boxes, *_writers(stream, left, "more writer" if boxes else "writer")]

    def counted_sources(self, stream: StreamStatus) -> list[Box]:
        """The same with all writers as one box."""
        return _writers(stream, stream.writers, "writer")


def _plain(stream: StreamStatus, more: str = "", then: tuple[Box, ...] = ()) -> Box:
    return Box("stream", stream.name, stream_link(stream.name), *state_of(stream), more, then)


def _reading(group: GroupStatus, then: tuple[Box, ...]) -> Box:
    """A group, and how far it is behind."""
    said = ("in backlog", "sl-bad") if group.window.backlog else (_number(group.readers, "reader"), "sl-soft")
    behind = lag(group.window.lower, group.seen_at)
    more = "" if behind == NOTHING else f"{behind} behind"
    return Box("reader group", group.name, group_link(group.name), *said, more, then)


def _writers(stream: StreamStatus, states: Mapping[str, int], noun: str) -> list[Box]:
    """A box for all these writers; none if there are none."""
    found = {WriterState(name): count for name, count in states.items() if count > 0}
    if not found:
        return []
    said = {each: writer_state(each) for each in found}
    colours = {each["state_class"] for each in said.values()}
    colour = next(each for each in ("sl-bad", "sl-good", "sl-soft") if each in colours)
    text = counts({said[each]["state"]: count for each, count in found.items()})
    return [Box("", _number(sum(found.values()), noun), f"{stream_link(stream.name)}#writers", text, colour)]


def _few(boxes: list[Box], noun: str, link: str, state: str = "") -> tuple[Box, ...]:
    """The first boxes, and one that says how many more there are."""
    more = len(boxes) - FLOW_BRANCHES
    if more <= 1:  # the box that says so takes as much room
        return tuple(boxes)
    return (*boxes[:FLOW_BRANCHES], Box("", f"{_number(more, f'more {noun}')}", link, state, "sl-bad"))


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def picture(sources: Sequence[Box], stream: Box) -> str:
    """The picture of a stream as HTML."""
    into = _list(sources, "sl-into", f"{stream.name} is written by", _source) if sources else ""
    title = escape(f"from the writers to the readers of {stream.name}")
    out = _list([stream], "sl-out", "stream", _target)
    return f'<div class="sl-flow" role="group" tabindex="0" aria-label="{title}">{into}{out}</div>'


def lines(box: Box) -> Iterator[str]:
    """The picture in words: each way from a stream to its end."""
    here = f"{box.name} ({box.state})" if box.state else box.name
    if not box.then:
        yield here
    for each in box.then:
        for line in lines(each):
            yield f"{here} → {line}"


def _target(box: Box) -> str:
    label = f"{box.name} is read by" if box.what == "stream" else f"{box.name} writes"
    return f"<li>{_drawn(box)}{_list(box.then, '', label, _target) if box.then else ''}</li>"


def _source(box: Box) -> str:
    label = f"{box.name} reads"
    return f"<li>{_list(box.then, '', label, _source) if box.then else ''}{_drawn(box)}</li>"


def _list(boxes: Sequence[Box], kind: str, label: str, drawn: Callable[[Box], str]) -> str:
    return f'<ul class="{kind}" aria-label="{escape(label)}">{"".join(map(drawn, boxes))}</ul>'


def _drawn(box: Box) -> str:
    what = f'<span class="sl-soft">{box.what}</span> ' if box.what else ""
    name = f'<a href="{escape(box.link)}">{escape(box.name)}</a>'
    state = f' <span class="{box.colour}">{escape(box.state)}</span>' if box.state else ""
    more = f' <span class="sl-soft">{escape(box.more)}</span>' if box.more else ""
    return f'<div class="sl-box">{what}{name}{state}{more}</div>'
