"""Tells a reader group of the controller how far a query has read, so that operators see it, and its backlog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from strandline.errors import PositionWentBack, UnknownReader
from strandline.segment import Segment, SegmentGraph

if TYPE_CHECKING:
    from spark_integration.windows import ControllerWindows
    from strandline.protocol.group_wire import GroupWindow

READER: Final = "spark"


class GroupFollower:
    """The one reader of a group, over one stream. It creates the group where there is none.

    Two queries that report to one group would tear it to and fro: the one that registered last fences the other, which
    then fails with Fenced.
    """

    def __init__(
        self, windows: ControllerWindows, group: str, stream: str, *, backlog_threshold_ms: int | None = None
    ) -> None:
        self._windows = windows
        self._group = group
        self._stream = stream
        self._backlog_threshold_ms = backlog_threshold_ms
        self._epoch: int | None = None
        self._told: dict[str, int] | None = None

    def report(self, positions: Mapping[str, int], segments: Sequence[Segment] = ()) -> None:
        """Everything below these positions is processed. Said again it costs nothing."""
        if self._epoch is None:
            self.register(positions, segments)
        elif dict(positions) != self._told:
            self._report({name: offset for name, offset in positions.items() if offset}, positions, segments)
        self._told = dict(positions)

    def register(self, positions: Mapping[str, int], segments: Sequence[Segment] = ()) -> None:
        """Takes the group over, from these positions on, also where they are further back than what was reported."""
        from strandline.protocol import group_calls
        from strandline.protocol.group_wire import GroupSettings

        settings = GroupSettings(
            streams=(self._stream,), backlog_threshold_ms=self._backlog_threshold_ms, reader_timeout_ms=None
        )
        self._windows.ask(lambda: group_calls.create_group(self._group, settings))
        named = _named(positions, [*self.window().streams[self._stream].position], segments)
        answer = self._windows.ask(
            lambda: group_calls.register_reader(self._group, READER, {self._stream: named} if named else {})
        )
        self._epoch = answer.epoch

    def window(self) -> GroupWindow:
        """Where the group stands."""
        from strandline.protocol import group_calls

        return self._windows.ask(lambda: group_calls.group_window(self._group))

    def _report(self, named: Mapping[str, int], positions: Mapping[str, int], segments: Sequence[Segment]) -> None:
        from strandline.protocol import group_calls

        epoch = self._epoch or 0
        try:
            self._windows.ask(lambda: group_calls.report(self._group, READER, epoch, {self._stream: named}))
        except (UnknownReader, PositionWentBack):  # the group was made anew, or an operator moved it
            self.register(positions, segments)


def _named(positions: Mapping[str, int], known: Sequence[str], segments: Sequence[Segment]) -> dict[str, int]:
    """The positions to register at: with the segments that stand at 0, but for those that would say too much.

    Who names a successor, at 0 even, says that all before it is read.
    """
    graph = SegmentGraph(segments, open=True)
    named = {name: offset for name, offset in positions.items() if offset}
    for name in known:
        before = graph[name].predecessors if name in graph else ()
        if name not in named and all(named.get(each) == graph[each].final_offset for each in before):
            named[name] = 0
    return named
