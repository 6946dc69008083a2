"""Reports to the controller: a query's positions, to a reader group that shows operators its progress and backlog.

The sources of one query may share a group, each with a stream of its own. Each is then a reader, named like its stream,
and follows the group's watermark while the group leaves its stream out, because the stream is idle. Spark takes the
least watermark of all sources, so what one follows never makes an event of another late.

The source `strandline` reports as it plans (`GroupFollower`). For attached sources a listener does, after each batch
(`PositionReporter`). Spark calls listeners one after the other, and one that waits for an answer would delay all of
them, so they send from a thread of their own (`ReportSender`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from spark_integration.listener import ReportListener
from spark_integration.offsets import MarkOffset, begun, offset_of
from spark_integration.options import StreamAccess
from spark_integration.positions import PositionReader, SourceRead, read_of
from spark_integration.window_calls import ControllerWindows
from strandline.core.segment import Segment, SegmentGraph
from strandline.errors import (
    GroupExists,
    PositionWentBack,
    Refused,
    StrandlineError,
    TooMany,
    UnknownGroup,
    UnknownReader,
)
from strandline.paced_log import PacedLog

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent, StreamingQueryProgress

    from reader_client.backlog import GroupBacklog
    from strandline.wire.groups import GroupWindow

REPORT_PAUSE_MS: Final = 500  # between attempts to report to the controller what a query has read, or its time
REPORTS_WAITING: Final = 1_024  # queries whose newest report is still to be sent
STANDS_S: Final = 10.0  # a bound that stands so long is looked into

_CHANGED: Final = ("backlog_threshold_ms", "reader_timeout_ms")  # the settings that an existing group gets

_log = logging.getLogger(__name__)


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
        from strandline.client.http import new_registration
        from strandline.wire.groups import GroupSettings, settings_of_group

        ask, stream = self._windows.ask, self._stream
        settings = GroupSettings(
            streams=(stream,), backlog_threshold_ms=self._backlog_threshold_ms, reader_timeout_ms=None
        )
        try:
            ask(lambda: group_calls.create_group(self._group, settings))
        except GroupExists:  # the group has other settings
            if not self._configured:
                streams = ask(lambda: group_calls.describe_group(self._group)).streams
                changes = {name: value for name, value in settings_of_group(settings).items() if name in _CHANGED}
                changes["streams"] = list(dict.fromkeys([*streams, stream]))
                ask(lambda: group_calls.change_group(self._group, changes))
        self._configured = True
        present = ask(lambda: group_calls.group_window(self._group)).streams[stream].position
        segments = [one.segment for one in ask(lambda: calls.describe(stream)).segments]
        taken = {stream: _named(positions, present, segments)}
        registration = new_registration()
        return ask(lambda: group_calls.register_reader(self._group, stream, taken, registration)).epoch


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

    It omits a successor whose predecessors are not read: to name it, even at 0, means that they are.
    """
    graph = SegmentGraph(segments, open=True)
    named = begun(positions)
    for name in {*present, *(segment.id for segment in graph)} - named.keys():
        before = graph[name].predecessors if name in graph else ()
        if all(named.get(each, 0) == graph[each].final_offset for each in before):
            named[name] = 0
    return named


@dataclass(frozen=True, slots=True)
class Attached:
    """A source whose positions are reported: the controller, the way to read them, and the backlog to update."""

    access: StreamAccess
    positions: PositionReader
    backlog: GroupBacklog | None = None


class PositionReporter(ReportListener):
    """Reports the end of each finished batch, for all attached sources of a session.

    It repeats failed reports. While the controller is away, the watermark waits, and queries go on.
    """

    def __init__(self) -> None:
        self._attached: dict[str, Attached] = {}  # by what their mark offsets name as `source`
        self._windows: dict[StreamAccess, ControllerWindows] = {}  # used in the outbox's thread only
        # By group and stream, in that thread: its bound, and when it moved or was looked into.
        self._bounds: dict[tuple[str, str], tuple[int | None, float]] = {}
        self._warned: set[tuple[str, str]] = set()  # the run of a query, and what the log has of it
        self._outbox = ReportSender("strandline positions")

    def attach(self, source: str, attached: Attached) -> None:
        """Reports queries whose mark offsets name this source from now on."""
        self._attached[source] = attached

    def settle(self, timeout_s: float) -> bool:
        """Waits until every finished batch is reported. Returns False on timeout."""
        return self._outbox.settle(timeout_s)

    def close(self) -> None:
        self._outbox.close()
        for windows in list(self._windows.values()):  # the thread may be about to add one
            windows.close()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        self.handle_progress(event.progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        """Forgets what the log says of this run: the last batch reported its position."""
        self._warned = {run for run in list(self._warned) if run[0] != str(event.runId)}

    def handle_progress(self, progress: StreamingQueryProgress) -> None:
        """Reports a finished batch. The source that Spark plans first is reported last: it may wait for that, and then
        see all of its group."""
        for source in reversed(progress.sources):
            marks, before = offset_of(source.endOffset), offset_of(source.startOffset)
            attached = None if marks is None else self._attached.get(marks.source)
            if marks is None or attached is None:
                continue
            read = read_of(progress.sources, attached.positions, marks.source, marks.stream)
            if isinstance(read, str):
                self._warn_once(progress, read)
            else:
                is_first = before is None or before.epoch != marks.epoch
                self._put(marks, attached, read, progress, is_first=is_first)

    def _put(
        self,
        marks: MarkOffset,
        attached: Attached,
        read: SourceRead,
        progress: StreamingQueryProgress,
        *,
        is_first: bool,
    ) -> None:
        """Reports a position, soon. That of a run's first batch is settled: the next run begins there."""
        subject, access = (marks.group, marks.stream), attached.access

        def send() -> None:
            if access not in self._windows:
                # It asks once: the sender repeats a report, and sends those of other queries in between.
                self._windows[access] = ControllerWindows(replace(access, wait_ms=1))
            settled = read.position if is_first else {}
            window = report(self._windows[access], *subject, marks.epoch, read.position, settled)
            if attached.backlog is not None:
                attached.backlog.update(window, read.remaining)
            if read.partitions is not None:
                own = window.streams.get(marks.stream)
                bound = None if own is None or access.time_key not in own.keys else own.keys[access.time_key].lower
                known, now = self._bounds.get(subject), time.monotonic()
                stands = known is not None and known[0] == bound
                if known is not None and stands and now - known[1] < STANDS_S:
                    return
                if stands:
                    self._check_partitions(access, read.partitions, progress)
                self._bounds[subject] = bound, now

        self._outbox.put(subject, send)

    def _check_partitions(self, access: StreamAccess, partitions: Set[str], progress: StreamingQueryProgress) -> None:
        """Logs a warning if the query does not read partitions that lie below the newest mark."""
        mark = self._windows[access].describe().latest_marks.get(access.time_key)
        missing = [] if mark is None else sorted(name for name, at in mark.cut.items() if at and name not in partitions)
        if missing:
            self._warn_once(
                progress,
                f"the marks of stream {access.stream!r} cover partitions that it does not read ({', '.join(missing)}): "
                "its watermark does not move; subscribe to the topic, or assign all of its partitions",
            )

    def _warn_once(self, progress: StreamingQueryProgress, text: str) -> None:
        run = str(progress.runId), text
        if run not in self._warned:
            self._warned.add(run)
            _log.warning("query %s: %s", progress.name or progress.id, text)


Send = Callable[[], None]


class ReportSender:
    """Sends the newest report of each subject, in turn, in one thread. A report may be the last one for a while, so it
    is repeated until it is sent, or until a newer one on the same subject replaces it."""

    def __init__(self, name: str) -> None:
        self._waiting: Final[dict[Hashable, Send]] = {}
        self._paced = PacedLog(__name__)
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, subject: Hashable, send: Send) -> None:
        """Sends a report soon. It replaces a waiting one of the same subject. Raises TooMany."""
        with self._changed:
            if subject not in self._waiting and len(self._waiting) >= REPORTS_WAITING:
                raise TooMany(what="reports waiting to be sent", count=len(self._waiting) + 1, limit=REPORTS_WAITING)
            self._waiting[subject] = send
            self._changed.notify_all()

    def settle(self, timeout_s: float) -> bool:
        """Waits until all reports are sent. Returns False on timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout_s)

    def close(self) -> None:
        """Ends the thread after its current report; drops waiting ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                subject = next(iter(self._waiting))
                send = self._waiting.pop(subject)
                self._busy = True
            again = not self._sent(subject, send)
            with self._changed:
                self._busy = False
                if again:
                    self._waiting.setdefault(subject, send)
                    self._changed.wait_for(lambda: self._closed, REPORT_PAUSE_MS / 1000)
                self._changed.notify_all()

    def _sent(self, subject: Hashable, send: Send) -> bool:
        try:
            send()
        except Refused as error:  # it would be refused again
            _log.error("the controller refused a query's report: %s", error)
        except StrandlineError as error:
            reason = error.__cause__ or error
            self._paced.warn(str(subject), f"a query's report could not be sent, and is repeated: {reason}")
            return False
        except Exception:
            _log.exception("a query's report failed")
        return True
