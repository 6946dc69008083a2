"""`attach`: an exact watermark for other sources: Spark's own Kafka connector, files, a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import uuid4
from weakref import WeakKeyDictionary

from pyspark.sql import functions

from spark_integration.column_names import find_name
from spark_integration.durations import duration_ms
from spark_integration.environment import register, register_source
from spark_integration.errors import InvalidOption, NotStreaming, WrongColumn
from spark_integration.event_times import unit_named, with_timestamp
from spark_integration.listener import QueryListener, listen
from spark_integration.mark_source import MarkOptions, MarkSource
from spark_integration.options import BACKLOG_THRESHOLD, CONTROLLER_WAIT_DEFAULT_MS, controller_text
from spark_integration.positions import KafkaPositions, PositionReader
from spark_integration.reports import Attached, PositionReporter
from spark_integration.rows import MARK
from spark_integration.spark_settings import check_attached, check_settings
from spark_integration.watermark import WATERMARK_TAG
from spark_integration.window_calls import check_call
from strandline.core.incomplete import OnIncomplete

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reader_client.backlog import GroupBacklog

_REPORTERS: Final[WeakKeyDictionary[SparkSession, tuple[PositionReporter, QueryListener]]] = WeakKeyDictionary()


def attach(
    spark: SparkSession,
    df: DataFrame,
    *,
    controller: str | Sequence[str],
    stream: str,
    event_time: str,
    time_unit: str | None = None,
    source: str | None = None,
    positions: PositionReader | None = None,
    token: str | None = None,
    token_file: str | None = None,
    ca_file: str | None = None,
    time_key: str = "",
    group: str | None = None,
    max_event_time_lag: str | int = 0,
    backlog: GroupBacklog | None = None,
    only_windows: bool = False,
    duplicates_within: str | int = 0,
    on_incomplete: str = OnIncomplete.GO_ON,
    controller_wait_ms: int = CONTROLLER_WAIT_DEFAULT_MS,
) -> DataFrame:
    """Sets an exact watermark on the column `event_time` of `df`, a stream of any source.

        sales = spark.readStream.format("kafka").options(**kafka).load().select(parsed)
        exact = attach(spark, sales, controller="http://127.0.0.1:8433", stream="sales", event_time="time")

    A listener reports the query's positions to the controller after each batch, and the next batch gets the watermark
    of `stream` at these positions. So windows close one batch later than with the source `strandline`, and never early.
    The session keeps the listener until `detach`.

    - `source`: the one topic that Spark's Kafka connector reads, by default the stream's name. All of its partitions
      are the stream's segments. For another source, any name.
    - `positions`: for another source, a function from its progress to a position; `FilePositions` is one for files.
    - `time_key`: the stream's time key.
    - `group`: the reader group that shows the query's position on the controller. By default each checkpoint has one,
      named after the application. Leave it out to read the result twice. Sources of one query that share it, each with
      its own stream, follow its watermark while their stream is idle. `spark.strandline.backlog.watermarkLagThreshold`
      is its threshold.
    - `max_event_time_lag`: in the ingestion domain, the longest time from an event to its write, in milliseconds or as
      "5 minutes". The watermark is each mark less this lag; an event that took longer is late.
    - `backlog`: updated after each batch: in backlog while the group is, while more offsets remain than it allows
      (only with the Kafka connector), or while one of its strategies is. `on_change` runs in a thread of the driver.
      The size of batches depends on the source's options, which it reads when the query starts.
    - `time_unit`, `only_windows`, `duplicates_within`: as in `exact_watermark`.
    - `on_incomplete`: what the query does when marks leave writers out: "go_on", "wait", which keeps the watermark at
      the last complete mark, or "fail", with WritersLeftOut.
    - `controller_wait_ms`: how long the job waits for the controller before it fails.

    A query may go on from any copy of its checkpoint, one at a time: another one that registers with the group ends it
    (GroupTaken). An `availableNow` run waits for the report of each batch, to close all windows complete at its end.

    Raises NotStreaming, WrongColumn, InvalidOption, WrongSetting, UnknownStream, and the errors of `register`.
    """
    check_attached(spark)
    check_settings(spark)
    df, event_time = _check(df, event_time, time_unit)
    keys_kept_ms = duration_ms("duplicates_within", str(duplicates_within))
    named = source if source is not None else stream
    call = f"{named}-{uuid4().hex[:12]}"  # several queries of a session may read one source, each somewhere else
    given = {
        "controller": controller_text(controller), "stream": stream, "timeKey": time_key, "token": token,
        "tokenFile": token_file, "caFile": ca_file, "controllerWaitMs": str(controller_wait_ms), "group": group,
        "source": call, "maxEventTimeLag": str(max_event_time_lag), "onIncomplete": str(on_incomplete),
        BACKLOG_THRESHOLD: spark.conf.get(BACKLOG_THRESHOLD, None),
        "application": spark.conf.get("spark.app.name", None),
    }  # fmt: skip
    options = {name: value for name, value in given.items() if value}
    access = MarkOptions.parse(options).access
    found = positions if positions is not None else KafkaPositions(named)
    if backlog is not None and backlog.counts_offsets and not isinstance(found, KafkaPositions):
        raise InvalidOption(
            name="remaining_offsets",
            value=named,
            wanted="leave it out: only Kafka's connector reports where its log ends",
        )
    check_call(spark, access)
    register(spark)
    register_source(spark, MarkSource)
    reporter(spark).attach(call, Attached(access, found, backlog))
    marks = spark.readStream.format(MarkSource.name()).options(**options).load()
    return _joined(df, marks, event_time, "0 milliseconds" if only_windows else "1 millisecond", keys_kept_ms)


def _check(df: DataFrame, event_time: str, time_unit: str | None) -> tuple[DataFrame, str]:
    """Returns the DataFrame with the time as a timestamp, and its column's name. Raises NotStreaming for one of a batch
    read, and WrongColumn for one that cannot be attached."""
    if not df.isStreaming:
        raise NotStreaming(call="attach")
    found = with_timestamp(df, event_time, unit_named(time_unit))
    if find_name(df, MARK) is not None:
        raise WrongColumn(column=MARK, found="is there", wanted="use exact_watermark")
    return found


def _joined(df: DataFrame, marks: DataFrame, event_time: str, delay: str, keys_kept_ms: int) -> DataFrame:
    """Returns the rows of `df` with the watermark of the marks.

    Only the mark rows pass the step that sets it, and are dropped above the union. A window adds the filter
    `event_time is not null`, which must not go below: it would drop the mark rows, and parse each row of `df` a second
    time. Spark moves no filter below a column that it takes for nondeterministic, as that of the event time is here.

    The nulls of the mark rows must not be constants to Spark. In a batch in which `df` has no rows, it plans the marks
    alone: from a key that is always null it concludes that a join matches nothing, and the join would not store the
    other side's rows. An element past the end of an array is null only when it is computed.
    """
    past_its_end = functions.spark_partition_id() + 1
    no_row = (
        functions.get(functions.array(functions.lit(None).cast(field.dataType)), past_its_end).alias(field.name)
        for field in df.schema
    )
    marked = marks.withWatermark(MARK, delay).select(*no_row, MARK)
    rows = df.withColumn(MARK, functions.lit(None).cast("timestamp")).union(marked)
    events = rows.where(functions.col(MARK).isNull()).drop(MARK)
    unmoved = functions.when(functions.spark_partition_id() >= 0, events[f"`{event_time}`"])
    tagged = df.schema[event_time].metadata | {WATERMARK_TAG: keys_kept_ms}
    return events.withColumn(event_time, unmoved).withMetadata(event_time, tagged)


def reporter(spark: SparkSession) -> PositionReporter:
    """Returns the session's listener; the first call adds it."""
    found = _REPORTERS.get(spark)
    if found is None:
        made = PositionReporter()
        found = _REPORTERS[spark] = made, listen(spark, made)
    return found[0]


def detach(spark: SparkSession) -> None:
    """Removes the session's listener: attached queries get no new watermark. Call it before the session stops."""
    found = _REPORTERS.pop(spark, None)
    if found is not None:
        made, listening = found
        listening.close()
        made.close()
