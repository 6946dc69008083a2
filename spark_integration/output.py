"""Chains of jobs: a job notes the time of its output stream, so that the next job is exact as well.

job 1 ──rows──► log of the output stream ──► job 2
  └──after each batch: its watermark, the end of that log──► controller ──marks──┘
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from spark_integration.errors import InvalidOption, WrongColumn
from spark_integration.listener import ReportListener, is_classic, listen, watermark_of
from spark_integration.offsets import END_OF_TIME_MS, begun
from spark_integration.options import StreamAccess, controller_text, location_of
from spark_integration.reports import REPORT_PAUSE_MS, ReportSender
from strandline.errors import StrandlineError, StreamSealed, TimeWentBack, says_nothing_changed
from strandline.logs import Event, Memo
from strandline.names import check_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        StreamingQueryProgress,
    )
    from pyspark.sql.streaming.query import StreamingQuery

    from strandline.logs import Log

_log = logging.getLogger(__name__)


class LogSink:
    """Appends each batch to a log, once: `writeStream.foreachBatch(LogSink("hourly", path=…))`.

    A batch has the column value, and optionally key or segment, as text or bytes. It goes through the driver and into
    one transaction of at most TRANSACTION_BYTES. For larger batches use Spark's own Kafka sink, which may write a row
    twice after a failure. `name` is the sink's name: the log keeps the last batch under it, so that a batch that runs
    again after a failure is not appended again; under Spark Connect only if its rows are the same again. So call it
    once for each batch; for other rows of the batch make another sink. Options are the source's `log`, `path` or
    `topic`, and `kafka.…`.
    """

    def __init__(self, name: str, **options: object) -> None:
        self._name = check_name("writer", name)
        self._place = location_of({key.lower(): str(value) for key, value in options.items()})
        self._open: Log | None = None
        self._last: tuple[str | None, int, str] | None = None  # the run of a query, its batch, and the digest of that

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}  # the receiving process opens the log itself

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        events = _events(batch)
        if not events:
            return
        if self._open is None:
            self._open = self._place.open_log(self._name)
        digest = _digest(events)
        call = _property_of(batch, "spark.jobGroup.id"), batch_id, digest
        memo = json.dumps({"batch": batch_id, "of": _property_of(batch, "sql.streaming.queryId") or digest})
        before = self._open.memo(self._name)
        if before == memo:
            if self._last is not None and call[:2] == self._last[:2] and digest != self._last[2]:
                wanted = "called once for each batch: make another sink, with a name of its own, for other rows"
                raise InvalidOption(name="name", value=self._name, wanted=wanted)
            self._last = call
            return  # it was committed before Spark failed
        if before and not before.startswith('{"batch": '):
            wanted = "the log has the memo of a writer, or of a program, under it: give the sink a name of its own"
            raise InvalidOption(name="name", value=self._name, wanted=wanted)
        with self._open.begin() as transaction:
            transaction.write(events)
            transaction.commit(Memo(self._name, memo))
        self._last = call

    def close(self) -> None:
        """Closes the log. The next batch opens it again."""
        if self._open is not None:
            self._open.close()
            self._open = None


class OutputNotes(ReportListener):
    """Notes the time of a job's output stream: after each batch, the job's watermark at the end of the output log.

    Create it before the query starts, since it registers as a writer of the output stream; then `follow` the query:

        notes = OutputNotes(spark, controller=…, stream="hourly", writer="job-1", path=…)
        query = counts.writeStream.foreachBatch(LogSink("job-1", path=…))….start()
        notes.follow(query)

    The event time of an output row must not be older than the watermark when it is written. A window's end is not; for
    a window's start, or rows of an outer join, `behind_ms` is the greatest difference. When the job has read a sealed
    stream to its end, `seal_at_end` seals the output stream too (and an embedded log); otherwise the writer closes.
    `close` only stops noting: the output stream's time waits until the job runs again. A job that was killed notes and
    seals in its next run what the last one reached; once its output is sealed, a further run changes nothing.

    A note that cannot be sent is repeated; a refusal is in the driver's log.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        controller: str | Sequence[str],
        stream: str,
        writer: str,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
        behind_ms: int = 0,
        seal_at_end: bool = False,
        **options: object,
    ) -> None:
        from strandline.client.http import Connection
        from writer_client import Writer

        known = {
            "controller": controller_text(controller),
            "stream": stream,
            "token": token,
            "tokenfile": token_file,
            "cafile": ca_file,
        }
        access = StreamAccess.parse({name: value for name, value in known.items() if value})
        self._place = location_of({"stream": stream} | {name.lower(): str(value) for name, value in options.items()})
        self._behind_ms = behind_ms
        self._seal_at_end = seal_at_end
        self._stream = access.stream
        self._connection = Connection(
            access.controller, token=access.token, token_file=access.token_file, ca_file=access.ca_file
        )
        self._writer = Writer(self._connection, access.stream, writer)
        self._followed: str | None = None  # the id of a query, which is that of its checkpoint
        self._noted: int | None = None
        self._may_have_noted: int | None = None  # includes notes whose answers were lost
        self._ended = self._end_is_noted = False
        with ExitStack() as opened:
            opened.callback(self._connection.close)
            opened.callback(self._writer.release)
            try:
                self._writer.register()
            except StreamSealed:
                if not seal_at_end:
                    raise
                self._end_is_noted = True
                _log.warning(
                    "stream %s is sealed: an earlier run of this job finished it, and this one adds nothing", stream
                )
            self._outbox = ReportSender(f"strandline notes of {writer}")
            opened.callback(self._outbox.close)
            self._listening = listen(spark, self)
            self._opened = opened.pop_all()
            self._opened.callback(self._listening.close)

    def follow(self, query: StreamingQuery) -> None:
        """Notes this query's time from now on, including its last batch. Raises InvalidOption for a second query: the
        output's time would be that of one of them."""
        if self._followed not in (None, str(query.id)):
            wanted = f"these notes follow query {self._followed}: this one needs others, with a writer of their own"
            raise InvalidOption(name="query", value=str(query.id), wanted=wanted)
        self._followed = str(query.id)
        self._listening.follow(query)
        last = query.lastProgress
        if last is not None:
            self.handle_progress(last)

    def settle(self, timeout_s: float) -> bool:
        """Waits until the time of every finished batch is noted. Returns False on timeout."""
        return self._outbox.settle(timeout_s)

    def close(self) -> None:
        """Stops noting. Call it before the session stops."""
        self._opened.close()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        self.handle_progress(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        """Repeats the last note, so that the controller does not time out the idle job."""
        if str(event.id) == self._followed and self._noted is not None and not self._ended:
            self._outbox.put("idle", self._repeat)

    def handle_progress(self, progress: StreamingQueryProgress) -> None:
        """Notes the watermark of a finished batch: all later output is younger."""
        watermark = watermark_of(progress)
        if str(progress.id) != self._followed or watermark is None or self._ended:
            return
        if watermark == END_OF_TIME_MS:
            self._outbox.put("time", self._end)
        else:
            self._outbox.put("time", lambda: self._note(watermark + 1 - self._behind_ms))

    def _note(self, moment: int) -> None:
        if self._ended or self._end_is_noted or (self._noted is not None and moment <= self._noted):
            return
        try:
            self._send(moment)
        except TimeWentBack as error:
            _log.warning("this job restarted from an older state; its output is late until it has caught up: %s", error)

    def _repeat(self) -> None:
        if self._may_have_noted is not None and not self._ended:
            self._send(self._may_have_noted)

    def _send(self, moment: int) -> None:
        before, self._may_have_noted = self._may_have_noted, moment
        try:
            self._writer.note_time(moment, begun(self._place.written_to()))
        except StrandlineError as error:
            if says_nothing_changed(error):
                self._may_have_noted = before
            raise
        self._noted = moment

    def _end(self) -> None:
        if self._ended:
            return
        if not self._end_is_noted:  # this method is repeated if a later call is not answered
            # No event follows, so any time is true. The note is for its position, which also names the segments.
            self._send(self._may_have_noted if self._may_have_noted is not None else self._writer.floor or 0)
            self._end_is_noted = True
        if self._seal_at_end:
            self._seal()
        else:
            self._writer.close(begun(self._place.written_to()))
        self._ended = True

    def _seal(self) -> None:
        from strandline.client import calls

        final = self._place.seal(lambda: time.sleep(REPORT_PAUSE_MS / 1000))
        # An open stream does not know segments without events.
        written = begun(final)
        self._connection.run(calls.seal(self._stream, written))


def _events(batch: DataFrame) -> list[Event]:
    if "value" not in batch.columns:
        raise WrongColumn(
            column="value", found="is not there", wanted="a batch for a log has value, and optionally key or segment"
        )
    columns = [name for name in ("key", "segment", "value") if name in batch.columns]
    for name in columns:
        kind = batch.schema[name].dataType.typeName()
        if kind not in (("string",) if name == "segment" else ("string", "binary")):
            wanted = "cast it to string" if name == "segment" else "cast it to string, or to binary"
            raise WrongColumn(column=name, found=f"is of type {kind}", wanted=wanted)
    rows = [row.asDict() for row in batch.select(*columns).collect()]
    return [Event(_bytes(row["value"]), key=_bytes(row.get("key")), segment=row.get("segment")) for row in rows]


def _bytes(value: str | bytes | bytearray | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else None if value is None else bytes(value)


def _property_of(batch: DataFrame, name: str) -> str | None:
    """What Spark says of the query whose batch this is: `sql.streaming.queryId` is that of its checkpoint, and
    `spark.jobGroup.id` that of its run. None outside of a query, and under Spark Connect, where a batch does not show
    it: there the events have to distinguish it from the batch of a new checkpoint with the same number."""
    spark = batch.sparkSession
    value: str | None = spark.sparkContext.getLocalProperty(name) if is_classic(spark) else None
    return value


def _digest(events: list[Event]) -> str:
    """Returns a digest that does not depend on the order of the events, which varies between Spark's tasks."""
    digests = sorted(blake2b(repr(event).encode(), digest_size=16).digest() for event in events)
    return blake2b(b"".join(digests), digest_size=16).hexdigest()
