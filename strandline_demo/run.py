"""A run of the demo from end to end: what is started when, and what is heard of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline.client import calls
from strandline.client.http import Connection
from strandline.client.retry import Patience
from strandline.core.config import StreamConfig
from strandline.core.note import DEFAULT_KEY
from strandline.errors import Unavailable
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from strandline_demo.job import EXACT, PLAIN, JobPart
from strandline_demo.messages import Drained, Ready
from strandline_demo.options import Choices
from strandline_demo.picture import Moment, Scene
from strandline_demo.processes import HOST, Ended, Heard, Parts, Said, is_free
from strandline_demo.progress import Observed, describe_holder
from strandline_demo.settings import WINDOW_MS
from strandline_demo.truth import LoggedEvent, Outcome, QueryRun, dropped_events, judge
from strandline_demo.world import Role, happenings, reach_ms, time_of, to_value
from strandline_demo.writer import WriterPart
from writer_client import Event

STREAM: Final = "demo"
TRIAL: Final = "trial"
TRIAL_EVENTS: Final = 500
SEGMENTS: Final = 3
MARK_INTERVAL_MS: Final = 200
SETTLE_MS: Final = 2_500  # from the start of the writers' processes to the start of the world
READY_WORDS: Final = "ready at "  # the controller's first line; its address follows
CONTROLLER: Final = "controller"
JOB: Final = "spark"

CONTROLLER_WAIT_S: Final = 60
JOB_WAIT_S: Final = 120
WRITERS_WAIT_S: Final = 60  # beyond what they need
DRAIN_WAIT_S: Final = 90
LINE_EVERY_S: Final = 2.0
HEAR_S: Final = 0.1
DESCRIBE_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came out of a run."""

    exact: Outcome
    plain: Outcome
    scene: Scene


class Run:
    """One run. `say` takes a line for whoever watches; everything lies in `folder`."""

    def __init__(self, choices: Choices, folder: Path, parts: Parts, say: Callable[[str], None]) -> None:
        self._choices = choices
        self._folder = folder
        self._parts = parts
        self._say = say
        self._path = folder / "events.db"
        self._trial_path = folder / "trial.db"
        self._seen = Observed()
        self.address = ""  # of the controller, once it runs

    def to_end(self) -> Result:
        """Runs everything; returns what came out. Raises Interrupted, and PartFailed or PartSilent."""
        address = self._start_controller()
        # A call that is not answered soon is given up: the next line of progress asks again.
        with (
            Connection(address) as connection,
            Connection(address, patience=Patience(deadline_ms=DESCRIBE_MS, attempt_ms=DESCRIBE_MS)) as hasty,
        ):
            config = StreamConfig(
                writer_timeout_ms=self._choices.settings.writer_timeout_ms,
                min_writers=len(Role),
                mark_interval_ms=MARK_INTERVAL_MS,
            )
            connection.run(calls.create_stream(STREAM, SEGMENTS, config))
            with SqliteLog.create(self._path, SEGMENTS) as log:
                self._make_trial(connection)
                self._start_job(address)
                start_ms = self._start_writers(address)
                self._follow_writers(start_ms, hasty)
                connection.run(calls.seal(STREAM, log.seal()))
            self._say("all writers closed, and the stream is sealed: both queries read it to its end")
            drained = self._await_drained()
        return self._result(start_ms, drained)

    # -- the parts ---------------------------------------------------------------------------------------------

    def _start_controller(self) -> str:
        """Starts a controller on a fresh store; returns its address."""
        port = self._choices.port
        if port and not is_free(port):
            self._say(f"port {port} is taken: another one is used (--port names one)")
            port = 0
        store = str(self._folder / "store.db")
        options = ("--database", store, "--host", HOST, "--port", str(port))
        self._parts.start(CONTROLLER, "controller.cli", "serve", *options)
        for heard in self._hear_for(CONTROLLER_WAIT_S, CONTROLLER, "say that it is ready"):
            if isinstance(heard, Said) and READY_WORDS in heard.line:
                self.address = heard.line.partition(READY_WORDS)[2].strip()
                until = "until you press Ctrl-C" if self._choices.keep else "until the demo ends (--keep: until Ctrl-C)"
                self._say(f"controller: {self.address}, on a fresh SQLite file; its dashboard is there {until}")
                return self.address
        raise AssertionError("the loop above does not end by itself")

    def _make_trial(self, connection: Connection) -> None:
        """A small sealed stream, on which Spark warms up."""
        connection.run(calls.create_stream(TRIAL, SEGMENTS, StreamConfig()))
        with SqliteLog.create(self._trial_path, SEGMENTS) as log:
            found = happenings(self._choices.settings, Role.STEADY)[:TRIAL_EVENTS]
            log.append(Event(to_value(event, _now_ms()), key=event.device.encode()) for event in found)
            connection.run(calls.seal(TRIAL, log.seal()))

    def _start_job(self, address: str) -> None:
        self._say("spark: starting one session on two cores, with two queries over the same stream")
        part = JobPart(
            controller=address,
            stream=STREAM,
            path=str(self._path),
            trial_stream=TRIAL,
            trial_path=str(self._trial_path),
            folder=str(self._folder),
            window_ms=WINDOW_MS,
            delay_ms=self._choices.settings.delay_ms,
        )
        self._parts.start(JOB, "strandline_demo.job", part.to_json())
        for heard in self._hear_for(JOB_WAIT_S, JOB, "start its queries"):
            if isinstance(heard, Ready):
                return

    def _start_writers(self, address: str) -> int:
        """Starts the four writers; returns when their world begins."""
        # On the boundary of a window, so that no window is cut off.
        start_ms = -(-(_now_ms() + SETTLE_MS) // WINDOW_MS) * WINDOW_MS
        for role in Role:
            part = WriterPart(
                role=role,
                controller=address,
                stream=STREAM,
                path=str(self._path),
                start_ms=start_ms,
                settings=self._choices.settings,
            )
            self._parts.start(role.value, "strandline_demo.writer", part.to_json())
        self._say(f"writers: {', '.join(Role)}, each a process")
        return start_ms

    def _follow_writers(self, start_ms: int, connection: Connection) -> None:
        """Tells how things go until every writer has closed."""
        settings = self._choices.settings
        last_ms = start_ms + settings.duration_ms + max(reach_ms(settings, role) for role in Role)
        patience_s = max(0, last_ms - _now_ms()) / 1000 + WRITERS_WAIT_S
        line_at_ms = start_ms + LINE_EVERY_S * 1000
        for heard in self._hear_for(patience_s, Role.OFFLINE.value, "close, as all writers should,"):
            now_ms = _now_ms()
            if heard is not None and (event := self._seen.take(heard)) is not None:
                self._say(f"{(now_ms - start_ms) / 1000:5.1f} s   {event}")
            if now_ms >= line_at_ms:
                line_at_ms = now_ms + LINE_EVERY_S * 1000
                self._say(f"{(now_ms - start_ms) / 1000:5.1f} s   {self._seen.summary(now_ms, _holder(connection))}")
            if len(self._seen.left) == len(Role):
                return

    def _await_drained(self) -> Drained:
        for heard in self._hear_for(DRAIN_WAIT_S, JOB, "read the stream to its end"):
            if isinstance(heard, Drained):
                return heard
            if heard is not None:
                self._seen.take(heard)
        raise AssertionError("the loop above does not end by itself")

    def _hear_for(self, patience_s: float, part: str, awaited: str) -> Iterator[Heard | None]:
        """What is heard, and None now and then; at the end of the patience a PartSilent about `part`."""
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            heard = self._parts.hear(HEAR_S)
            if isinstance(heard, Ended) and heard.part == CONTROLLER:
                raise self._parts.failed(CONTROLLER, heard.status)
            yield heard
        raise self._parts.silent(part, awaited, patience_s)

    # -- what came out -----------------------------------------------------------------------------------------

    def _result(self, start_ms: int, drained: Drained) -> Result:
        events = read_log(self._path)
        exact, plain = (self._run_of(query, drained) for query in (EXACT, PLAIN))
        scene = Scene(
            start_ms=start_ms,
            end_ms=max(event.appended_ms for event in events),
            delay_ms=self._choices.settings.delay_ms,
            exact=_moments(EXACT, drained),
            plain=_moments(PLAIN, drained),
            outage=self._seen.outage,
            events=events,
            dropped=dropped_events(events, plain, WINDOW_MS),
        )
        return Result(
            exact=judge(events, exact, WINDOW_MS), plain=judge(events, plain, WINDOW_MS), scene=scene
        )  # fmt: skip

    def _run_of(self, query: str, drained: Drained) -> QueryRun:
        progress = [each for each in drained.progress if each.query == query]
        return QueryRun(
            emissions=tuple(self._seen.emissions[query]),
            watermark_ms=max(each.watermark_ms for each in progress),
            rows_dropped=sum(each.rows_dropped for each in progress),
        )


def read_log(path: Path) -> list[LoggedEvent]:
    """Every event that the log holds: the truth."""
    found = []
    with SqliteLogReader(path) as log:
        for segment, end in log.end_offsets().items():
            found += [LoggedEvent(time_of(row.value or b""), row.appended_at) for row in log.rows(segment, 0, end)]
    return found


def _moments(query: str, drained: Drained) -> tuple[Moment, ...]:
    """A query's watermark, batch by batch, from the first one that is not Spark's beginning of time."""
    return tuple(
        Moment(each.at_ms, each.watermark_ms)
        for each in drained.progress
        if each.query == query and each.watermark_ms > 0
    )


def _holder(connection: Connection) -> str:
    try:
        return describe_holder(connection.run(calls.describe(STREAM)).held_by.get(DEFAULT_KEY))
    except Unavailable as error:
        return f"the controller does not say who holds time back ({error.code})"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
