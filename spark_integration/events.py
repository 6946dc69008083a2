"""`read_events` and `read_between`: source, parsing and watermark in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions
from pyspark.sql.types import StructType

from spark_integration.column_names import find_name, folding
from spark_integration.durations import time_us
from spark_integration.environment import register
from spark_integration.errors import InvalidOption, WrongColumn
from spark_integration.event_times import as_read, field_within, from_json, unit_named
from spark_integration.options import BACKLOG_THRESHOLD, LEFT_OUT, LeftOutOptions, SourceOptions, controller_text
from spark_integration.read_ranges import ReadRange, find_range
from spark_integration.rows import FLOOR, MARK, SCHEMA
from spark_integration.watermark import OBSERVATION, exact_watermark
from spark_integration.window_calls import check_call
from strandline.core.backlog import BacklogStrategy
from strandline.core.incomplete import OnIncomplete
from strandline.core.time_units import milliseconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Moment = int | str | datetime  # epoch milliseconds, an ISO 8601 timestamp, or a datetime with a time zone


def read_events(
    spark: SparkSession,
    *,
    controller: str | Sequence[str],
    stream: str,
    schema: str | StructType,
    event_time: str,
    time_unit: str | None = None,
    only_windows: bool = False,
    observation: str = OBSERVATION,
    late_to: str | None = None,
    unreadable_to: str | None = None,
    left_out_to: str | None = None,
    duplicates_within: str | int = 0,
    on_incomplete: str = OnIncomplete.GO_ON,
    backlog_strategies: Iterable[BacklogStrategy] = (),
    **options: object,
) -> DataFrame:
    """Returns a streaming DataFrame of a stream's events, parsed, with an exact watermark on `event_time`.

        place = {"controller": "http://127.0.0.1:8433", "stream": "orders", "log": "sqlite", "path": "orders.log"}
        events = read_events(spark, **place, schema="time bigint", event_time="time")

    Each event's value is a JSON object. Its fields in `schema` become columns. The field `event_time` becomes a
    timestamp. It has whole epoch milliseconds; or, with `time_unit="s"` ("ms", "us", "ns"), numbers in that unit, also
    with a fraction ("time double"); or text with a date ("time timestamp"). See `exact_watermark` for what is rounded.
    The log's columns (key, segment, offset, appended_at) are added unless a field has the same name. An event that
    cannot be parsed has nulls; the metric `unreadable` counts it.

    `options` are the source's: `log="sqlite", path=…`, or `log="kafka"` with the client's options, such as
    `**{"kafka.bootstrap.servers": …}`. The call registers the source, with `backlog_strategies` as in `register`. See
    `exact_watermark` for the other arguments.

    `on_incomplete` is what the query does when marks leave writers out: "go_on", "wait", which keeps the watermark at
    the last complete mark, or "fail", with WritersLeftOut.

    `left_out_to` is a folder, visible to all machines, for a Parquet file of the intervals in which marks left writers
    out, as this query passed them: see `read_left_out`, which has their columns. It has what the windows that the query
    has written lack, exactly once, wherever the query was killed.

    Raises WrongColumn, InvalidOption, UnknownStream if the controller
    answers at once that there is no such stream, and the errors of `register`.
    """
    _check_options(options, onIncomplete="on_incomplete", leftOutTo="left_out_to")
    register(spark, backlog_strategies=backlog_strategies)
    threshold = spark.conf.get(BACKLOG_THRESHOLD, None)
    known = {} if threshold is None else {BACKLOG_THRESHOLD: threshold}
    named = {"controller": controller_text(controller), "stream": stream, "onIncomplete": on_incomplete}
    named |= {} if left_out_to is None else {"leftOutTo": left_out_to}
    given = {**known, **options, **named}
    check_call(spark, SourceOptions.parse(_texts(given)).access)
    reader = spark.readStream.format("strandline").options(**_texts(given))
    names_files = ("segment", "offset") if (late_to, unreadable_to) != (None, None) else ()
    parsed = _parsed(reader.load(), schema, event_time, time_unit, keep=(MARK, FLOOR), needed=names_files)
    return exact_watermark(
        parsed,
        event_time=event_time,
        only_windows=only_windows,
        observation=observation,
        late_to=late_to,
        unreadable_to=unreadable_to,
        duplicates_within=duplicates_within,
    )


def read_between(
    spark: SparkSession,
    *,
    controller: str | Sequence[str],
    stream: str,
    schema: str | StructType,
    event_time: str,
    start: Moment,
    end: Moment,
    time_unit: str | None = None,
    **options: object,
) -> DataFrame:
    """Returns exactly the events with `start` <= time < `end`, for a batch job.

        read_between(spark, **place, schema="time bigint", event_time="time", start=yesterday, end=today)

    The result is final: the stream is complete up to `end`. Otherwise the job waits for `endingWait`, and fails with
    NotYetComplete. Columns and options are as in `read_events`. An event without a readable time is not in it.

    Raises what `read_events` raises, and InvalidOption for a `start` after `end`.

    The result may be inexact in three cases, which the driver's log reports and `read_range` returns as values: a
    `startingSlack` that is too short, events that retention removed where no `newest` was noted, and an incomplete mark
    in the range. Reading raises NotInLog if retention removed events after the last mark before `start`.
    """
    _check_options(options, startingTime="start", endingTime="end")
    register(spark)
    given = {
        **options,
        "controller": controller_text(controller),
        "stream": stream,
        "startingTime": _moment("start", start),
        "endingTime": _moment("end", end),
    }
    check_call(spark, SourceOptions.parse(_texts(given)).access)
    raw = spark.read.format("strandline").options(**_texts(given)).load()
    parsed = _parsed(raw, schema, event_time, time_unit, keep=())
    time = functions.col(event_time)
    return parsed.where((time >= _timestamp("start", start)) & (time < _timestamp("end", end)))


def read_left_out(
    spark: SparkSession,
    *,
    controller: str | Sequence[str],
    stream: str,
    start: Moment | None = None,
    **options: object,
) -> DataFrame:
    """Returns the intervals in which marks of a stream left writers out: `from`, `until`, `key`, `writers`, `open`.

        read_left_out(spark, controller="http://127.0.0.1:8433", stream="orders").where("open")

    A window lacks the writers of an interval if it ends after `from`, and not after `until`. `from` is null before the
    first mark, and `until` while the interval is open. So a window that no interval has is complete. A query or reader
    that passes several marks at once may have more than this shows; `left_out_to` of `read_events` has it of a query.

    With `start`, marks before this time are not read, and `from` is null in what began there. Retention of marks
    removes intervals, too. `options` are the source's; those of the log are not needed, and `maxEventTimeLag` is, if
    the query has one. Raises what `read_between` raises.
    """
    _check_options(options, startingTime="start")
    register(spark)
    given = {**options, "controller": controller_text(controller), "stream": stream, "read": LEFT_OUT}
    if start is not None:
        given["startingTime"] = _moment("start", start)
    found = LeftOutOptions.of(_texts(given))
    assert found is not None
    check_call(spark, found.access)
    return spark.read.format("strandline").options(**_texts(given)).load()


def read_range(
    *, controller: str | Sequence[str], stream: str, start: Moment, end: Moment, **options: object
) -> ReadRange:
    """Returns the range that `read_between` would read, and whether it is exact. This process must reach the log.
    Raises NotYetComplete."""
    _check_options(options, startingTime="start", endingTime="end")
    given = {**options, "controller": controller_text(controller), "stream": stream}
    given |= {"startingTime": _moment("start", start), "endingTime": _moment("end", end)}
    return find_range(SourceOptions.parse(_texts(given)))


def _check_options(options: Mapping[str, object], **arguments: str) -> None:
    """Raises InvalidOption for an option that an argument of the call has: one of the two would be ignored. Spark does
    not tell capital letters from others."""
    named = {option.lower(): argument for option, argument in arguments.items()}
    for name, value in options.items():
        if name.lower() == "read":
            raise InvalidOption(name=name, value=str(value), wanted="left out: read_left_out reads the intervals")
        if (argument := named.get(name.lower())) is not None:
            raise InvalidOption(name=name, value=str(value), wanted=f"left out: it is the argument {argument}= here")


def _parsed(
    raw: DataFrame,
    schema: str | StructType,
    event_time: str,
    time_unit: str | None,
    *,
    keep: tuple[str, ...],
    needed: tuple[str, ...] = (),
) -> DataFrame:
    unit, text = unit_named(time_unit), functions.col("value").cast("string")
    opened = raw.withColumn("value", functions.from_json(text, schema))
    fields = _struct(opened, "value")
    names = fields.names
    fold = folding(opened)
    for name in names:
        if fold(name) in (MARK, FLOOR):
            raise WrongColumn(
                column=name, found="is a field of the schema", wanted="rename it: the watermark uses that name"
            )
        if fold(name) in needed:
            raise WrongColumn(
                column=name,
                found="is a field of the schema",
                wanted="rename it, or leave out late_to and unreadable_to: they name their files after the log's "
                "column of this name",
            )
    found = find_name(opened, event_time, names)
    if found is None:
        path = field_within(fields, event_time)
        if path is None:
            raise WrongColumn(column=event_time, found="is not there", wanted=f"the schema has {', '.join(names)}")
        name = path.rpartition(".")[2]
        raise WrongColumn(
            column=event_time,
            found="is a field of another one",
            wanted=f'load the source yourself, parse the values, pull it up with df.withColumn("{name}", '
            f'functions.col("{path}")), and call exact_watermark',
        )
    event_time, taken = found, {fold(name) for name in ("value", MARK, FLOOR, *names)}
    log_columns = [name for name in SCHEMA.names if name not in taken]
    columns = [functions.col("value")[name].alias(name) for name in names]
    opened = raw.withColumn("value", functions.from_json(text, as_read(fields, event_time, unit)))
    parsed = opened.select(*columns, *log_columns, *keep)
    return from_json(parsed, event_time, fields[event_time].dataType, unit)


def _struct(df: DataFrame, column: str) -> StructType:
    kind = df.schema[column].dataType
    if not isinstance(kind, StructType):
        raise WrongColumn(column=column, found=f"is of type {kind.simpleString()}", wanted="the schema of an object")
    return kind


def _moment(name: str, moment: Moment) -> str:
    """A moment as an option."""
    if isinstance(moment, datetime):
        milliseconds(name, moment)  # which refuses one without a time zone
        return moment.isoformat()
    return str(moment)


def _timestamp(name: str, moment: Moment) -> Column:
    """A moment as a timestamp, to the microsecond as Spark has them."""
    return functions.timestamp_micros(functions.lit(time_us(name, _moment(name, moment))))


def _texts(options: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in options.items() if value is not None}
