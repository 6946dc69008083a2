"""Reports a query's positions to a reader group of the controller, which shows operators its progress and backlog.

The sources of one query may share a group, each with a stream of its own. Each is then a reader, named like its stream,
and follows the group's watermark while the group leaves its stream out, because the stream is idle. Spark takes the
least watermark of all sources, so what one follows never makes an event of another late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from spark_integration.offsets import begun
from strandline.core.segment import Segment, SegmentGraph
from strandline.errors import GroupExists, PositionWentBack, UnknownGroup, UnknownReader

if TYPE_CHECKING:
    from spark_integration.window_calls import ControllerWindows
    from strandline.wire.groups import GroupWindow

_CHANGED: Final = ("backlog_threshold_ms", "reader_timeout_ms")  # the settings that an existing group gets


class GroupFollower:
    """Reports the positions of one source, the only reader of its stream in the group.

    If two queries report one stream to one group, the one that registered last fences the other, which fails with
    Fenced.
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
        self._reported: tuple[Mapping[str, int], Mapping[str, int]] | None = None

    def report(self, positions: Mapping[str, int], settled: Mapping[str, int] | None = None) -> GroupWindow:
        """Reports that all events below these positions are read, and those below `settled` processed: by default, all.
        Returns the group's window. The first call registers at what is settled."""
        from strandline.client import group_calls

        settled = positions if settled is None else settled
        try:
            if self._epoch is not None and (positions, settled) != self._reported:
                self._reported = positions, settled
                return report(self._windows, self._group, self._stream, self._epoch, positions, settled)
            if self._epoch is not None:
                return self._windows.ask(lambda: group_calls.group_window(self._group))
        except (UnknownGroup, UnknownReader, PositionWentBack):  # it was created again, or an operator moved it
            pass
        self._epoch = self.register(settled)
        self._reported = settled, settled
        return self._windows.ask(lambda: group_calls.group_window(self._group))

    def register(self, positions: Mapping[str, int]) -> int:
        """Takes over the group at these positions, even if they are before the reported ones. Returns the epoch.

        Creates the group if there is none. An existing group gets the stream, if it does not have it, and the query's
        settings once in each run, so that later changes by an operator stay.
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
                streams = self._windows.ask(lambda: group_calls.describe_group(self._group)).streams
                changes = {name: value for name, value in settings_of_group(settings).items() if name in _CHANGED}
                changes["streams"] = list(dict.fromkeys([*streams, self._stream]))
                self._windows.ask(lambda: group_calls.change_group(self._group, changes))
        self._configured = True
        present = self._windows.ask(lambda: group_calls.group_window(self._group)).streams[self._stream].position
        segments = [one.segment for one in self._windows.ask(lambda: calls.describe(self._stream)).segments]
        named = _named(positions, present, segments)
        taken = {self._stream: named}
        return self._windows.ask(lambda: group_calls.register_reader(self._group, self._stream, taken)).epoch


def report(
    windows: ControllerWindows,
    group: str,
    stream: str,
    epoch: int,
    positions: Mapping[str, int],
    settled: Mapping[str, int] | None = None,
) -> GroupWindow:
    """Reports positions for the registration `epoch`, and what is settled of them, by default all; returns the group's
    window. A segment that `settled` leaves out stays settled as it was. Raises Fenced for an older epoch, and
    PositionWentBack."""
    from strandline.client import group_calls

    read = {stream: begun(positions)}
    of_these = None if settled is None or settled == positions else {stream: begun(settled)}
    return windows.ask(lambda: group_calls.report(group, stream, epoch, read, of_these)).window


def followed(window: GroupWindow, stream: str, key: str) -> int | None:
    """Returns the group's watermark, if it leaves out this stream; None if it waits for it."""
    return window.watermarks.get(key) if stream in window.idle else None


def _named(positions: Mapping[str, int], present: Iterable[str], segments: Iterable[Segment]) -> dict[str, int]:
    """Returns the positions to register at, including segments that go back to 0.

    It omits a successor whose predecessors are not read: to name it, even at 0, says that they are.
    """
    graph = SegmentGraph(segments, open=True)
    named = begun(positions)
    for name in {*present, *(segment.id for segment in graph)} - named.keys():
        before = graph[name].predecessors if name in graph else ()
        if all(named.get(each, 0) == graph[each].final_offset for each in before):
            named[name] = 0
    return named
