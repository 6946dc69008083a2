"""`exact_watermark`: sets Spark's watermark from the mark rows, with public DataFrame calls only.

Four steps, all needed, in this order:

1. `withWatermark` on the mark column: Spark's tracker follows the greatest mark. Event rows have none.
2. `observe`, as a barrier. Spark pushes filters that do not use the watermark column below the watermark, down to the
   source: `mark is null`, and `event_time is not null`, which a window adds itself. They would drop the mark rows
   before Spark sees them. Spark pushes nothing past an observation.
3. Keep only event rows.
4. Tag the event-time column as the watermarked one, as append mode, eviction, join state and late filtering expect.
   This step is last, because step 1 removes the tag from every other column.

For Spark a row with event_time <= watermark is late. By a mark of T all events *older* than T are there; rows at
T may follow. So step 1 has a delay of one millisecond, and the watermark is T - 1 ms.

The barrier only stops filters after the call. A user's filter before the call drops the mark rows:
`spark_integration.mark_watch` detects that in the progress reports.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import TimestampType

from spark_integration.durations import duration_ms
from spark_integration.errors import MarkDropped, WrongColumn
from spark_integration.event_times import unit_named, with_timestamp
from spark_integration.late_rows import keep_rows
from spark_integration.rows import FLOOR, MARK
from spark_integration.spark_settings import check_settings
from strandline.core.time_units import MICROSECONDS_FROM, SECONDS_END, SECONDS_FROM

# Spark's own name, in the column's metadata. Only `dropDuplicatesWithinWatermark` goes by the value, a delay: it keeps
# a key until the watermark has passed the first row's time by so much. The watermark itself follows the mark column.
WATERMARK_TAG: Final = "spark.watermarkDelayMs"
OBSERVATION: Final = "strandline"
# Kinds of examples. The greatest text of a batch is observed; what is logged once a run comes before what is repeated.
UNREADABLE: Final = "unreadable"
OTHER_UNIT: Final = "unit"
LATE: Final = "late"


def exact_watermark(
    df: DataFrame,
    *,
    event_time: str,
    time_unit: str | None = None,
    only_windows: bool = False,
    observation: str = OBSERVATION,
    late_to: str | None = None,
    unreadable_to: str | None = None,
    duplicates_within: str | int = 0,
) -> DataFrame:
    """Sets an exact watermark on the column `event_time` of a `strandline` stream, and drops its mark column.

        exact_watermark(events, event_time="time").groupBy(functions.window("time", "10 seconds")).count()

    `df` comes from the source, with columns parsed as you like. It must still have the column `mark` and the mark rows,
    whose event time must be null, as it is when it is parsed from `value`: filter, join and limit afterwards. If the
    mark rows are lost, the watermark does not move, and the driver's log has a warning after the first batch (see
    `MarkWatch`).

    - `time_unit`: "s", "ms", "us" or "ns", where `event_time` is a number, which is rounded down to the millisecond.
      Without it whole numbers are milliseconds, and a double or decimal is refused. Text has dates, such as
      2026-03-01T12:00:00Z; one without a zone is in the session's, as Spark's timestamps are.
    - `only_windows`: sets the watermark to T instead of T - 1 ms, so that a window that ends at T closes with the mark
      T, not with the next one. Use it only if the query has nothing but aggregations over tumbling or sliding windows:
      a row at T belongs to a later window. Session windows, joins, deduplication and timers would drop rows at T.
    - `observation`: the name of the metrics in progress reports. Two streams in one query need two names.
    - `late_to`: a folder, visible to all machines, for Parquet files of the late rows, with the mark that each came
      after in the column `floor`. They are taken out of the stream, also where a window is still open for them: so each
      row is in a window or in a file, never in both. It needs the columns segment and offset, and passes every row
      through Python. A repeated batch writes the same files again. Several streams and queries may name one folder.
    - `unreadable_to`: the same for rows without an event time.
    - `duplicates_within`: for how long after a row's event time `dropDuplicatesWithinWatermark` drops rows with its
      key, in milliseconds or as "1 hour". It changes nothing else. By default only rows at the very time of the first
      are sure to be dropped.

    The metrics are events, unreadable (events without an event time), mark (ms), late (events older than the previous
    batch's mark: a writer broke its promise, and Spark drops them unless their window is still open; null if `df` has
    no column `floor`), backlog (1 while the job is in backlog), and incomplete (how many writers the mark leaves out).
    The metric example has the kind, segment, offset, time and floor of an event that is unreadable, else of one whose
    time looks like another unit than milliseconds, else of a late one. The log has a line for the first of each.

    Rows before 1970-01-01 00:00 UTC are always late, since Spark's watermark begins there: they count as such and go to
    `late_to`. A row at that very moment counts in windows alone. Raises MarkDropped, WrongColumn, WrongSetting, and
    InvalidOption for a duration that is none.
    """
    _check_mark(df)
    if event_time == MARK:
        wanted = "name the column that has the events' own time"
        raise WrongColumn(column=MARK, found="carries the watermark", wanted=wanted)
    df, event_time = with_timestamp(df, event_time, unit_named(time_unit))
    check_settings(df.sparkSession)
    tag = {WATERMARK_TAG: duration_ms("duplicates_within", str(duplicates_within))}
    is_event, time = functions.col(MARK).isNull(), functions.col(event_time)
    late = backlog = incomplete = _nothing()
    time_ms, floor_ms = functions.unix_millis(time), functions.lit(None)
    in_another_unit = time_ms.between(SECONDS_FROM, SECONDS_END - 1) | (time_ms > MICROSECONDS_FROM)
    is_odd = time.isNull() | in_another_unit
    if FLOOR in df.columns:
        floor = functions.col(FLOOR)
        floor_ms = functions.unix_millis(floor)
        is_late = functions.coalesce(time < floor, functions.lit(False)) | (
            time < functions.timestamp_millis(functions.lit(0))
        )
        late = functions.count(functions.when(is_event & is_late, 1))
        is_odd = is_odd | is_late
        status = functions.when(~is_event, functions.coalesce(floor_ms, functions.lit(0)))
        backlog = functions.max(status.bitwiseAND(1))
        incomplete = functions.max(functions.shiftright(status, 1))
    kind = functions.when(time.isNull(), UNREADABLE).when(in_another_unit, OTHER_UNIT).otherwise(LATE)
    place = (
        functions.coalesce(functions.col(name).cast("string"), functions.lit("?"))
        if name in df.columns
        else functions.lit("?")
        for name in ("segment", "offset")
    )
    # One metric for all kinds, the greatest text: each metric more costs a few percent of the time of a batch.
    example = functions.when(is_event & is_odd, functions.concat_ws("\t", kind, *place, time_ms, floor_ms))
    count = functions.count(functions.lit(1)) - functions.count(MARK)
    marked = df.withWatermark(MARK, "0 milliseconds" if only_windows else "1 millisecond").observe(
        observation,
        count.alias("events"),
        (count - functions.count(functions.when(is_event, time))).alias("unreadable"),
        functions.unix_millis(functions.max(MARK)).alias("mark"),
        late.alias("late"),
        backlog.alias("backlog"),
        incomplete.alias("incomplete"),
        functions.max(example).alias("example"),
    )
    events = marked.where(is_event).drop(MARK)
    if late_to is not None or unreadable_to is not None:
        events = keep_rows(events, event_time, observation, late_to=late_to, unreadable_to=unreadable_to)
    return events.drop(FLOOR).withMetadata(event_time, df.schema[event_time].metadata | tag)


def _nothing() -> Column:
    """An unknown metric."""
    return functions.max(functions.lit(None).cast("bigint"))


def _check_mark(df: DataFrame) -> None:
    if MARK not in df.columns:
        raise MarkDropped(columns=tuple(df.columns))
    kind = df.schema[MARK].dataType
    if not isinstance(kind, TimestampType):
        found = f"is of type {kind.simpleString()}, not timestamp"
        raise WrongColumn(column=MARK, found=found, wanted="leave it as the source yields it")
