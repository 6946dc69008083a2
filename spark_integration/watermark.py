"""`exact_watermark`: makes Spark's watermark what the mark rows say, with public DataFrame calls only.

Four steps, in this order, each needed:

1. `withWatermark` on the mark column. Spark's tracker then follows the greatest mark it sees; event rows have none.
2. `observe`, as a barrier. Spark moves filters that do not touch the watermark column below the watermark, down to the
   source, and `mark is null` is not the only one: a window asks for `event_time is not null` by itself. That would
   throw the mark rows away before they are seen. It moves nothing past an observation.
3. Only event rows go on.
4. The event-time column is tagged as the watermarked one, as append mode, eviction, join state and late filtering
   expect. It comes last, because step 1 takes the tag from every other column.

Spark takes a row with event_time <= watermark for late; a mark of T says that everything *older* than T is here, and
rows at T may still come. So what is fed is T - 1 ms, by a delay of one millisecond in step 1.

The barrier holds back what comes after the call. A filter that a user puts before it takes the mark rows away all the
same: `spark_integration.mark_watch` notices that in what each batch reports.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import TimestampType

from spark_integration.errors import MarkDropped, WrongColumn
from spark_integration.late_rows import keep_late
from spark_integration.rows import FLOOR, MARK

WATERMARK_TAG: Final = "spark.watermarkDelayMs"  # Spark's own name, in the column's metadata
OBSERVATION: Final = "strandline"


def exact_watermark(
    df: DataFrame,
    *,
    event_time: str,
    only_windows: bool = False,
    observation: str = OBSERVATION,
    late_to: str | None = None,
) -> DataFrame:
    """The events of a `strandline` stream, with an exact watermark on `event_time`; the mark column is gone.

    `df` comes from the source, with columns parsed as you like, and still has the column `mark`. The mark rows must
    still be in it: filter, join and limit afterwards. Where they are lost before, the watermark stands still, and
    the driver's log has a warning after the first batch (see `MarkWatch`). Their event time must be null, as it is
    when it is parsed from `value`.

    `only_windows` feeds T instead of T - 1 ms, so that a window that ends exactly at T closes with this mark, not
    with the next one. It is right where the query has nothing but windowed aggregations, since a row at T belongs to
    a window that ends later. With anything else (joins, deduplication, timers) rows at T would be dropped.

    `observation` names the metrics in progress reports: events, unreadable (events without an event time), mark (ms),
    late (events older than the mark that the batch before ended with: someone broke a promise, and Spark drops them,
    but for those whose window is still open; null where `df` has lost the column `floor`), and backlog (1 while the
    job works off one). Two streams in one query need two names.

    `late_to` keeps the late rows as well: a folder that all machines see, to which they go as Parquet files, before
    Spark drops them. It needs the columns segment and offset, and costs every row a way through Python. A batch that
    runs again writes the same files again.

    Rows at or before 1970-01-01 00:00 UTC are late to Spark whatever the mark says: its watermark begins there.

    Raises MarkDropped or WrongColumn.
    """
    _check(df, event_time)
    is_event = functions.col(MARK).isNull()
    has_floor = FLOOR in df.columns
    late = is_event & (functions.col(event_time) < functions.col(FLOOR)) if has_floor else None
    marked = df.withWatermark(MARK, "0 milliseconds" if only_windows else "1 millisecond").observe(
        observation,
        functions.count(functions.when(is_event, 1)).alias("events"),
        functions.count(functions.when(is_event & functions.col(event_time).isNull(), 1)).alias("unreadable"),
        functions.max(functions.unix_millis(MARK)).alias("mark"),
        (_nothing() if late is None else functions.count(functions.when(late, 1))).alias("late"),
        (
            _nothing()
            if not has_floor
            else functions.max(functions.when(~is_event, functions.col(FLOOR).isNotNull().cast("bigint")))
        ).alias("backlog"),
    )
    events = marked.where(is_event).drop(MARK)
    if late_to is not None:
        events = keep_late(events, event_time, late_to)
    return events.drop(FLOOR).withMetadata(event_time, df.schema[event_time].metadata | {WATERMARK_TAG: 0})


def _nothing() -> Column:
    """A metric that is not known."""
    return functions.max(functions.lit(None).cast("bigint"))


def check_event_time(df: DataFrame, event_time: str) -> None:
    """Raises WrongColumn where that is no timestamp of the DataFrame."""
    _check_timestamp(df, event_time, "parse it to a timestamp before, as with timestamp_millis(…)")


def _check(df: DataFrame, event_time: str) -> None:
    if MARK not in df.columns:
        raise MarkDropped(columns=tuple(df.columns))
    _check_timestamp(df, MARK, "leave it as the source gives it")
    if event_time == MARK:
        raise WrongColumn(
            column=MARK, found="carries the watermark", wanted="name the column that has the events' own time"
        )
    check_event_time(df, event_time)


def _check_timestamp(df: DataFrame, column: str, wanted: str) -> None:
    if column not in df.columns:
        raise WrongColumn(column=column, found="is not there", wanted=f"the DataFrame has {', '.join(df.columns)}")
    kind = df.schema[column].dataType
    if not isinstance(kind, TimestampType):
        raise WrongColumn(column=column, found=f"is of type {kind.simpleString()}, not timestamp", wanted=wanted)
