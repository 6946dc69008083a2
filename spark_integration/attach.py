"""`attach`: an exact watermark for a source that is not ours: Spark's own Kafka connector, files, a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from pyspark.sql import functions

from spark_integration.environment import register
from spark_integration.errors import InvalidOption, WrongColumn
from spark_integration.listener import QueryListener, listen
from spark_integration.mark_source import MarkOptions
from spark_integration.options import BACKLOG_THRESHOLD
from spark_integration.position_reporter import Attached, KafkaPositions, PositionReporter, Positions
from spark_integration.rows import MARK
from spark_integration.watermark import OBSERVATION, WATERMARK_TAG, check_event_time
from strandline.limits import CONTROLLER_WAIT_DEFAULT_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reader_client.backlog import GroupBacklog

_REPORTERS: Final[WeakKeyDictionary[SparkSession, tuple[PositionReporter, QueryListener]]] = WeakKeyDictionary()


def attach(
    spark: SparkSession,
    df: DataFrame,
    *,
    controller: str,
    stream: str,
    event_time: str,
    source: str | None = None,
    positions: Positions | None = None,
    token: str | None = None,
    token_file: str | None = None,
    ca_file: str | None = None,
    time_key: str = "",
    group: str | None = None,
    max_event_time_lag: str | int = 0,
    backlog: GroupBacklog | None = None,
    only_windows: bool = False,
    observation: str = OBSERVATION,
    controller_wait_ms: int = CONTROLLER_WAIT_DEFAULT_MS,
) -> DataFrame:
    """The same rows as `df`, a stream of any source, with an exact watermark on `event_time`.

    What the writers noted on `stream` counts, at the positions that this query has read: a listener reports them after
    each batch, and the next one gets the watermark that is true there. So windows close one batch later than with the
    source `strandline`, and never early. The session keeps the listener until `detach`.

    `source` is the topic that Spark's Kafka connector reads, where it is not named like the stream; its partitions are
    the stream's segments. For another source give `positions`, which reads a position off its progress (`FilePositions`
    does for files), and any word for `source`. `group` names the reader group that shows the query's position on the
    controller; without it each checkpoint has one of its own. `only_windows` and `observation` are as in
    `exact_watermark`; of the metrics there is the mark.

    `max_event_time_lag` is for a stream in the ingestion domain: the longest time from an event to its write, in
    milliseconds or in words ("5 minutes"). The watermark is each mark less this lag; an event that took longer is late.

    The group gets the threshold that `spark.strandline.backlog.watermarkLagThreshold` names. `backlog` is updated with
    each batch: in backlog while the group is, while more offsets remain than it allows (of the Kafka connector only),
    or while one of its strategies says so. Its `on_change` is called in a thread of the driver. The source decides how
    large batches are, and reads that when the query starts.

    A checkpoint that was put back to an older state is taken for one that has read as far as the group says: begin with
    a new checkpoint then. An `availableNow` run ends before the marks behind its last batch: the next run has them.

    Raises WrongColumn, InvalidOption, and what `register` does.
    """
    check_event_time(df, event_time)
    if MARK in df.columns:
        raise WrongColumn(column=MARK, found="is there", wanted="events of the source strandline go to exact_watermark")
    named = source if source is not None else stream
    given = {
        "controller": controller, "stream": stream, "timeKey": time_key, "token": token, "tokenFile": token_file,
        "caFile": ca_file, "controllerWaitMs": str(controller_wait_ms), "group": group, "source": named,
        "maxEventTimeLag": str(max_event_time_lag), BACKLOG_THRESHOLD: spark.conf.get(BACKLOG_THRESHOLD, None),
    }  # fmt: skip
    options = {name: value for name, value in given.items() if value}
    asking = MarkOptions.parse(options).asking
    found = positions if positions is not None else KafkaPositions(named)
    if backlog is not None and backlog.counts_offsets and not isinstance(found, KafkaPositions):
        raise InvalidOption(
            name="remaining_offsets", value=named, wanted="leave it out: only Kafka's connector says where its log ends"
        )
    register(spark)
    reporter(spark).attach(named, Attached(asking, found, backlog))
    rows = spark.readStream.format("strandline-marks").options(**options).load()
    marks = rows.withWatermark(MARK, "0 milliseconds" if only_windows else "1 millisecond")
    return _joined(df, marks, event_time, observation)


def _joined(df: DataFrame, marks: DataFrame, event_time: str, observation: str) -> DataFrame:
    """The rows of `df` alone, in a plan that has the watermark of the marks."""
    none_of_them = (
        marks.observe(observation, functions.max(functions.unix_millis(MARK)).alias("mark"))
        .where(functions.col(MARK).isNull())
        .select(*(functions.lit(None).cast(field.dataType).alias(field.name) for field in df.schema))
    )
    # The rows of the marks end here: a union of nothing, but the plan has a watermark, and below the observation.
    return df.union(none_of_them).withMetadata(event_time, df.schema[event_time].metadata | {WATERMARK_TAG: 0})


def reporter(spark: SparkSession) -> PositionReporter:
    """The session's listener; added when it is first asked for."""
    found = _REPORTERS.get(spark)
    if found is None:
        made = PositionReporter()
        found = _REPORTERS[spark] = made, listen(spark, made)
    return found[0]


def detach(spark: SparkSession) -> None:
    """Takes the listener from the session: attached queries get no new watermark. Call it before the session stops."""
    found = _REPORTERS.pop(spark, None)
    if found is not None:
        made, listening = found
        listening.close()
        made.close()
