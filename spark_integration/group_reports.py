"""Reports a query's positions to a reader group of the controller, which shows operators its progress and backlog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from spark_integration.offsets import begun
from strandline.core.segment import Segment, SegmentGraph
from strandline.errors import GroupExists, PositionWentBack, UnknownGroup, UnknownReader

if TYPE_CHECKING:
    from spark_integration.window_calls import ControllerWindows
    from strandline.wire.groups import GroupWindow

READER: Final = "spark"
_CHANGED: Final = ("streams", "backlog_threshold_ms", "reader_timeout_ms")  # the settings that an existing group gets


class GroupFollower:
    """Reports the positions of one query, the only reader of its group.

    If two queries report to one group, the one that registered last fences the other, which fails with Fenced.
    """

    def __init__(
        self, windows: ControllerWindows, group: str, stream: str, *, backlog_threshold_ms: int | None = None
    ) -> None:
        self._windows = windows
        self._group = group
        self._stream = stream
        self._backlog_threshold_ms = backlog_threshold_ms
        self._configured = False
        self._epoch: int | None = None
        self._told: dict[str, int] | None = None

    def report(self, positions: Mapping[str, int]) -> None:
        """Reports that all events below these positions are processed. The first call registers; a report without a
        change makes no call."""
        if self._epoch is None:
            self._epoch = self.register(positions)
        elif dict(positions) != self._told:
            try:
                report(self._windows, self._group, self._stream, self._epoch, positions)
            except (UnknownGroup, UnknownReader, PositionWentBack):  # it was created again, or an operator moved it
                self._epoch = self.register(positions)
        self._told = dict(positions)

    def threshold_ms(self) -> int | None:
        """Returns the group's current backlog threshold, which an operator may have changed since the query started;
        before the first report, the query's own."""
        from strandline.client import group_calls

        if self._epoch is None:
            return self._backlog_threshold_ms
        return self._windows.ask(lambda: group_calls.describe_group(self._group)).backlog_threshold_ms

    def register(self, positions: Mapping[str, int]) -> int:
        """Takes over the group at these positions, even if they are before the reported ones. Returns the epoch.

        Creates the group if there is none. An existing group gets the query's settings once in each run, so that later
        changes by an operator stay.
        """
        from strandline.client import calls, group_calls
        from strandline.wire.groups import GroupSettings, settings_of_group

        settings = GroupSettings(
            streams=(self._stream,), backlog_threshold_ms=self._backlog_threshold_ms, reader_timeout_ms=None
        )
        try:
            self._windows.ask(lambda: group_calls.create_group(self._group, settings))
        except GroupExists:  # the group has other settings
            if not self._configured:
                changes = {name: value for name, value in settings_of_group(settings).items() if name in _CHANGED}
                self._windows.ask(lambda: group_calls.change_group(self._group, changes))
        self._configured = True
        stands = self._windows.ask(lambda: group_calls.group_window(self._group)).streams[self._stream].position
        segments = [one.segment for one in self._windows.ask(lambda: calls.describe(self._stream)).segments]
        named = _named(positions, stands, segments)
        return self._windows.ask(lambda: group_calls.register_reader(self._group, READER, {self._stream: named})).epoch


def report(
    windows: ControllerWindows,
    group: str,
    stream: str,
    epoch: int,
    positions: Mapping[str, int],
    *,
    settles: bool = True,
) -> GroupWindow:
    """Reports positions for the registration `epoch`; returns the group's window. Raises Fenced for an older epoch, and
    PositionWentBack. Unless it `settles` them, what is settled stays as it was."""
    from strandline.client import group_calls

    named = {stream: begun(positions)}
    settled: Mapping[str, Mapping[str, int]] | None = None if settles else {}
    return windows.ask(lambda: group_calls.report(group, READER, epoch, named, settled)).window


def _named(positions: Mapping[str, int], stands: Iterable[str], segments: Iterable[Segment]) -> dict[str, int]:
    """Returns the positions to register at, including segments that go back to 0.

    It omits a successor whose predecessors are not read: to name it, even at 0, says that they are.
    """
    graph = SegmentGraph(segments, open=True)
    named = begun(positions)
    for name in {*stands, *(segment.id for segment in graph)} - named.keys():
        before = graph[name].predecessors if name in graph else ()
        if all(named.get(each, 0) == graph[each].final_offset for each in before):
            named[name] = 0
    return named
