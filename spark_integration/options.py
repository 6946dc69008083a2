"""The options of the `strandline` source, checked when the DataFrame is loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, Self, TypeAlias

from spark_integration.durations import duration_ms, time_ms
from spark_integration.errors import InvalidOption
from spark_integration.releases import HAS_LIMITS, INSTALLED
from strandline.client.addresses import check_addresses
from strandline.core.incomplete import OnIncomplete
from strandline.errors import InvalidConfig
from strandline.limits import OFFSET_BOUND
from strandline.logs.places import KAFKA_PREFIX, KINDS, Place
from strandline.names import check_name

CONTROLLER_WAIT_DEFAULT_MS: Final = 60_000  # how long a query waits for a controller that is away
BACKLOG_BATCH_DEFAULT_ROWS: Final = 10_000_000  # of a batch of a job that works off a backlog

TOKEN_VARIABLE: Final = "STRANDLINE_TOKEN"
BACKLOG_THRESHOLD: Final = "spark.strandline.backlog.watermarkLagThreshold"
# The descriptions go into docs/reference/options.md.
OPTIONS: Final = {
    "controller": "the controller's address, or several with commas between them; required",
    "stream": "the stream's name; required",
    "timeKey": 'the stream\'s time key; by default `""`',
    "token": "the job's token for the controller; better set the driver's `STRANDLINE_TOKEN`, or `tokenFile`",
    "tokenFile": "a file on the driver that holds the token",
    "caFile": "the certificates to trust instead of the machine's",
    "log": f"the kind of log, {' or '.join(f'`{each}`' for each in KINDS)}; by default `sqlite`",
    "path": "with `sqlite`: the log's file, at the same path on every machine",
    "topic": "with `kafka`: the topic, by default the stream's name. Options of the client are given as `kafka.…`",
    "startingTime": "read from this time on: epoch milliseconds, or a time with its zone, as `2026-03-01T12:00:00Z`",
    "startingSlack": "how far ahead of its note an event may have been written, if the marks have no `newest`",
    "startingPositions": 'read from these offsets on, as `{"0": 120}`; `head` is the default',
    "endingTime": "a batch read: up to this time, not including it",
    "endingPositions": "a batch read: up to these offsets; `end` is the default",
    "endingWait": "a batch read: how long to wait for a time that the stream has not reached, as `5 minutes`",
    "maxRowsPerBatch": "at most this many rows a batch, shared evenly among the segments",
    "maxRowsPerBacklogBatch": "the same while the job is in backlog",
    BACKLOG_THRESHOLD: "the job is in backlog while its watermark is further behind the clock, as `5 minutes`",
    "backlogRemainingOffsets": "the job is in backlog, too, while more events than this remain to be read",
    "maxEventTimeLag": "in the ingestion domain: the longest time from an event to its write",
    "group": "a reader group that shows the job's position on the controller; sources of one query that share it "
    "follow its watermark while their own stream is idle. It is created if there is none",
    "onIncomplete": "what a query does when marks leave writers out: `go_on` (the default), `wait`, which keeps the "
    "watermark at the last complete mark, or `fail`",
    "leftOutTo": "a folder for a Parquet file of the intervals in which marks left writers out, as a query passed them",
    "read": "`events` (the default), or `leftOut`: a batch read of the intervals in which marks left writers out, from "
    "`startingTime` on",
    "controllerWaitMs": "how long a job waits for a controller, or the end of a log, that it cannot reach",
}
KNOWN: Final = tuple(OPTIONS)
EVENTS: Final = "events"  # what `read` may be
LEFT_OUT: Final = "leftOut"


@dataclass(frozen=True, slots=True)
class AtHead:
    """From the beginning of the log."""


@dataclass(frozen=True, slots=True)
class AtEnd:
    """To the end of the log at the time of planning."""


@dataclass(frozen=True, slots=True)
class AtPositions:
    """From, or to, an offset in each segment. An omitted segment is unread, or fully read if a named one follows it."""

    positions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """From, or to, a time. As a start, `slack_ms` is how far ahead of its note an event may have been written. It is
    used if the marks have no `newest`; without it reading then starts at the head."""

    time: int
    slack_ms: int | None = None


ReadStart: TypeAlias = AtHead | AtPositions | AtTime
ReadEnd: TypeAlias = AtEnd | AtPositions | AtTime


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAccess:
    """The controller, the stream, and how long to wait for an answer. Plain data: it travels to Spark's processes."""

    controller: str
    stream: str
    time_key: str = ""
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    ca_file: str | None = None
    wait_ms: int = CONTROLLER_WAIT_DEFAULT_MS

    def __post_init__(self) -> None:
        controller_text(self.controller)
        check_name("stream", self.stream)
        if self.wait_ms < 1:
            raise InvalidOption(name="controllerWaitMs", value=self.wait_ms, wanted="a whole number from 1")

    @classmethod
    def parse(cls, options: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Self:
        """Reads options whose names are in lower case. Raises InvalidOption."""
        wait = whole(options, "controllerWaitMs")
        return cls(
            controller=controller_text(required(options, "controller", "the controller's address")),
            stream=required(options, "stream", "the stream's name"),
            time_key=options.get("timekey", ""),
            token=_token(options, environment),
            token_file=options.get("tokenfile"),
            ca_file=options.get("cafile"),
            wait_ms=CONTROLLER_WAIT_DEFAULT_MS if wait is None else wait,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a source reads, and from where. Plain data: it travels to Spark's Python processes."""

    access: StreamAccess
    place: Place
    group: str | None = None
    start: ReadStart = field(default_factory=AtHead)
    end: ReadEnd = field(default_factory=AtEnd)
    ending_wait_ms: int = 0
    max_rows_per_batch: int | None = None
    max_rows_per_backlog_batch: int = BACKLOG_BATCH_DEFAULT_ROWS
    backlog_threshold_ms: int | None = None
    backlog_remaining_offsets: int | None = None
    max_event_time_lag_ms: int = 0
    on_incomplete: OnIncomplete = OnIncomplete.GO_ON
    left_out_to: str | None = None

    def __post_init__(self) -> None:
        if self.group is not None:
            check_name("group", self.group)
        if isinstance(self.start, AtTime) and isinstance(self.end, AtTime) and self.end.time < self.start.time:
            raise InvalidOption(
                name="endingTime",
                value=self.end.time,
                wanted=f"a time from startingTime on, which is {self.start.time}: nothing lies between them",
            )
        for name, edge in (("startingPositions", self.start), ("endingPositions", self.end)):
            if isinstance(edge, AtPositions):
                _check_positions(name, edge.positions)
        for name, rows in (
            ("maxRowsPerBatch", self.max_rows_per_batch),
            ("maxRowsPerBacklogBatch", self.max_rows_per_backlog_batch),
            (BACKLOG_THRESHOLD, self.backlog_threshold_ms),
            ("backlogRemainingOffsets", self.backlog_remaining_offsets),
        ):
            check_count(name, rows)

    @classmethod
    def parse(cls, given: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Self:
        """Reads Spark's options. Raises InvalidOption, which names the option and its valid values.

        Better set the token in the driver's environment variable STRANDLINE_TOKEN, or in a file: an option is part of
        the plan, and Spark redacts it in most of its output, not in all.
        """
        options = in_lower_case(given)
        check_limits(options)
        large = whole(options, "maxRowsPerBacklogBatch")
        return cls(
            access=StreamAccess.parse(options, environment),
            place=location_of(options),
            group=options.get("group") or None,
            start=_start(options),
            end=_end(options),
            ending_wait_ms=duration(options, "endingWait"),
            max_rows_per_batch=whole(options, "maxRowsPerBatch"),
            max_rows_per_backlog_batch=BACKLOG_BATCH_DEFAULT_ROWS if large is None else large,
            backlog_threshold_ms=backlog_threshold(options),
            backlog_remaining_offsets=whole(options, "backlogRemainingOffsets"),
            max_event_time_lag_ms=duration(options, "maxEventTimeLag"),
            on_incomplete=on_incomplete(options),
            left_out_to=options.get("leftoutto") or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutOptions:
    """The stream whose intervals without writers are read. Plain data: it travels to Spark's Python processes."""

    access: StreamAccess
    start: int | None = None  # a time: what marks before it left out is not read
    max_event_time_lag_ms: int = 0

    @classmethod
    def of(cls, given: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Self | None:
        """Reads Spark's options; returns None if they ask for events. Those of a log have no meaning here. Raises
        InvalidOption."""
        options = in_lower_case(given)
        read = options.get("read", EVENTS)
        if read not in (EVENTS, LEFT_OUT):
            raise InvalidOption(name="read", value=read, wanted=f"{EVENTS} or {LEFT_OUT}")
        if read == EVENTS:
            return None
        for name in ("startingPositions", "endingTime", "endingPositions"):
            if (value := options.get(name.lower())) is not None:
                raise InvalidOption(name=name, value=value, wanted=f"left out with read={LEFT_OUT}, which reads marks")
        start = options.get("startingtime")
        return cls(
            access=StreamAccess.parse(options, environment),
            start=None if start is None else time_ms("startingTime", start),
            max_event_time_lag_ms=duration(options, "maxEventTimeLag"),
        )


def in_lower_case(given: Mapping[str, str], names: Sequence[str] = KNOWN) -> dict[str, str]:
    """Returns the options with their names in lower case. Raises InvalidOption for one that there is not."""
    options = {name.lower(): value for name, value in given.items()}
    known = {name.lower(): name for name in names}
    for name, value in options.items():
        if name not in known and not name.startswith(KAFKA_PREFIX):
            meant = [known[each] for each in get_close_matches(name, known, n=1)]
            wanted = f"there is no such option: {f'did you mean {meant[0]}? ' if meant else ''}Known are"
            raise InvalidOption(name=name, value=value, wanted=f"{wanted} {', '.join(names)}, and {KAFKA_PREFIX}…")
    return options


def _token(options: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Returns the token, or None if there is a token file, which the driver reads before its first call."""
    if options.get("tokenfile") is not None:
        if options.get("token") is not None:
            raise InvalidOption(name="tokenFile", value=options["tokenfile"], wanted="give it or token, not both")
        return None
    return options.get("token") or environment.get(TOKEN_VARIABLE) or None


def controller_text(controller: str | Sequence[str]) -> str:
    """Returns the addresses of a controller as the option has them. Raises InvalidOption."""
    try:
        return ",".join(check_addresses(controller))
    except InvalidConfig as error:
        raise InvalidOption(name="controller", value=error.value, wanted=error.wanted) from None


def required(options: Mapping[str, str], name: str, wanted: str) -> str:
    value = options.get(name.lower())
    if not value:
        raise InvalidOption(name=name, value=None, wanted=f"give {wanted}")
    return value


def whole(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name.lower())
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        raise InvalidOption(name=name, value=value, wanted="a whole number") from None


def check_count(name: str, value: int | None) -> None:
    """Raises InvalidOption for a number below 1."""
    if value is not None and value < 1:
        raise InvalidOption(name=name, value=value, wanted="a whole number from 1")


def backlog_threshold(options: Mapping[str, str]) -> int | None:
    """Returns how far the watermark may be behind the clock without a backlog, in milliseconds; None is any lag."""
    given = options.get(BACKLOG_THRESHOLD.lower())
    return None if given is None else duration_ms(BACKLOG_THRESHOLD, given)


def on_incomplete(options: Mapping[str, str]) -> OnIncomplete:
    """Returns what a query does when marks leave writers out."""
    given = options.get("onincomplete", OnIncomplete.GO_ON)
    try:
        return OnIncomplete(given)
    except ValueError:
        raise InvalidOption(name="onIncomplete", value=given, wanted=" or ".join(OnIncomplete)) from None


def duration(options: Mapping[str, str], name: str) -> int:
    return duration_ms(name, options.get(name.lower(), "0"))


def location_of(options: Mapping[str, str]) -> Place:
    """Returns the log's location from options whose names are in lower case. Raises InvalidOption."""
    name = options.get("log", "sqlite")
    if name not in KINDS:
        raise InvalidOption(name="log", value=name, wanted=" or ".join(KINDS))
    return KINDS[name].of(options, partial(required, options))


def _start(options: Mapping[str, str]) -> ReadStart:
    time, positions = _one_of(options, "startingTime", "startingPositions")
    slack = options.get("startingslack")
    if slack is not None and time is None:
        raise InvalidOption(name="startingSlack", value=slack, wanted="it goes with startingTime")
    if time is not None:
        slack_ms = None if slack is None else duration_ms("startingSlack", slack)
        return AtTime(time_ms("startingTime", time), slack_ms)
    if positions is None or positions == "head":
        return AtHead()
    return AtPositions(_positions("startingPositions", positions, "head"))


def _end(options: Mapping[str, str]) -> ReadEnd:
    time, positions = _one_of(options, "endingTime", "endingPositions")
    if time is not None:
        return AtTime(time_ms("endingTime", time, up=True))
    if positions is None or positions == "end":
        return AtEnd()
    return AtPositions(_positions("endingPositions", positions, "end"))


def _one_of(options: Mapping[str, str], time: str, positions: str) -> tuple[str | None, str | None]:
    found = options.get(time.lower()), options.get(positions.lower())
    if None not in found:
        raise InvalidOption(name=positions, value=found[1], wanted=f"give it or {time}, not both")
    return found


def _positions(name: str, value: str, word: str) -> dict[str, int]:
    try:
        positions: Any = json.loads(value)
    except ValueError:
        positions = None
    if not isinstance(positions, dict):
        raise InvalidOption(name=name, value=value, wanted=f'{word}, or positions as {{"0": 120, "1": 80}}')
    return positions


def _check_positions(name: str, positions: Mapping[str, int]) -> None:
    for segment, offset in positions.items():
        check_name("segment", segment)
        if type(offset) is not int or not 0 <= offset < OFFSET_BOUND:
            raise InvalidOption(name=name, value=offset, wanted="offsets are whole numbers from 0")


def check_limits(options: Mapping[str, str], *, has_limits: bool = HAS_LIMITS) -> None:
    """Raises InvalidOption for a limit that Spark cannot pass on. An `availableNow` run would end after one such batch,
    because before 4.2 it is a single batch."""
    for name in ("maxRowsPerBatch", "maxRowsPerBacklogBatch"):
        if not has_limits and name.lower() in options:
            raise InvalidOption(
                name=name,
                value=options[name.lower()],
                wanted=f"leave it out, or install Spark 4.2 or newer; with Spark {INSTALLED}, which is installed, a "
                "Python source cannot limit its batches",
            )
