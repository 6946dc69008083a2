"""What Spark drops of out-of-order events: with the exact watermark, and with its own at several delays. On real Spark.

    python -m benchmarks.spark_exactness [--seed 1] [--events 1200] [--steps 100] [recorded.csv …]

Phones write to a log, a segment each, and note what was acknowledged; `benchmarks.disorder` says where the events come
from. Each set is read live, and again with one segment read four times as fast as the others. After each of `--steps`
parts all queries catch up, so that a batch has what came in the meantime, as with a trigger every few seconds; fewer
steps drop less. In the end the windows of the live run are compared with two replays in batches of other sizes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, functions

from benchmarks.disorder import NotedAt, PhoneEvent, devices_of, faster, generate, load, notes, own_segments
from logs import Event
from logs.sqlite import SqliteLog
from spark_integration import read_events
from strandline.config import StreamConfig
from strandline.note import Note
from strandline.protocol import calls
from strandline.protocol.transport import Connection

DELAYS_S: Final = (1, 5, 10, 60)
WINDOW_MS: Final = 1_000
CONFIG: Final = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None)
PACE_S: Final = 0.5
NUMBERS: Final = count(1)


@dataclass(frozen=True, slots=True)
class Result:
    """Events that each query lost; of the exact one, the rows that Spark says it dropped, and the windows."""

    lost: Mapping[str, int]
    dropped: int
    windows: Mapping[int, int]


class Phones:
    """A stream that phones write to, in the order in which a reader is to meet their events."""

    def __init__(self, connection: Connection, folder: Path, events: Sequence[PhoneEvent]) -> None:
        self.connection, self.events = connection, events
        self.name = f"phones-{next(NUMBERS)}"
        self.path = folder / f"{self.name}.db"
        self.segments = own_segments(events)
        self._log = SqliteLog.create(self.path, len(self.segments))
        connection.run(calls.create_stream(self.name, len(self.segments), CONFIG))
        for device in devices_of(events):
            connection.run(calls.register(self.name, device))

    def write(self, events: Iterable[PhoneEvent]) -> None:
        self._log.append(
            Event(
                b'{"at": %d, "device": "%s", "sequence": %d}' % (each.event_ms, each.device.encode(), each.sequence),
                segment=self.segments[each.device],
            )
            for each in events
        )

    def note(self, noted: Sequence[NotedAt]) -> None:
        made = [Note(writer=each.device, times={"": each.time}, position=each.position) for each in noted]
        for start in range(0, len(made), 1_000):
            self.connection.run(calls.notes(self.name, made[start : start + 1_000]))

    def seal(self) -> None:
        self.connection.run(calls.seal(self.name, self._log.seal()))
        self._log.close()

    def read(self, spark: SparkSession, **options: Any) -> DataFrame:
        return read_events(
            spark, controller=self.connection.controller, stream=self.name, path=self.path,
            schema="at bigint, device string, sequence bigint", event_time="at", **options,
        )  # fmt: skip

    def raw(self, spark: SparkSession) -> DataFrame:
        """The events without a watermark."""
        source = spark.readStream.format("strandline")
        loaded = source.options(controller=self.connection.controller, stream=self.name, path=str(self.path)).load()
        fields = functions.from_json(functions.col("value").cast("string"), "at bigint, device string, sequence bigint")
        events = loaded.where("mark is null").select(fields.alias("fields")).select("fields.*")
        return events.withColumn("at", functions.timestamp_millis("at"))

    def truth(self) -> dict[int, int]:
        return dict(Counter(each.event_ms // WINDOW_MS * WINDOW_MS for each in self.events))


class Windows:
    """A query with the exact watermark, and every window that it emitted."""

    def __init__(self, events: DataFrame, checkpoint: Path) -> None:
        self.emitted: Counter[int] = Counter()
        counts = events.groupBy(functions.window("at", f"{WINDOW_MS} milliseconds")).count()
        writer = counts.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(checkpoint))
        self.query = writer.start()

    def _keep(self, batch: DataFrame, _: int) -> None:
        for row in batch.select(functions.unix_millis("window.start").alias("start"), "count").collect():
            self.emitted[row["start"]] += row["count"]

    def finish(self) -> dict[int, int]:
        self.query.processAllAvailable()
        self.query.stop()
        return dict(self.emitted)

    @property
    def dropped(self) -> int:
        return sum(one.numRowsDroppedByWatermark for each in self.query.recentProgress for one in each.stateOperators)


class Unique:
    """A query with Spark's own watermark, which asks of each event whether it is late; and how many came through."""

    def __init__(self, events: DataFrame, delay_s: int, checkpoint: Path) -> None:
        self.kept = 0
        watched = events.withWatermark("at", f"{delay_s} seconds").dropDuplicates(["at", "device", "sequence"])
        writer = watched.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(checkpoint))
        self.query = writer.start()

    def _keep(self, batch: DataFrame, _: int) -> None:
        self.kept += batch.count()


def measure(
    spark: SparkSession,
    phones: Phones,
    folder: Path,
    *,
    delays_s: Sequence[int] = DELAYS_S,
    steps: int,
    reading: Sequence[PhoneEvent] | None = None,
    paced_ms: int = 0,
) -> Result:
    """Runs all queries side by side while the events come. With `reading` it is a replay in that order, of which all
    notes are known before. What was received in the last `paced_ms` comes by the clock, each event when it came."""
    order = phones.events if reading is None else reading
    pending = notes(phones.events, phones.segments)
    if reading is not None:
        phones.note(pending)
    exact = Windows(phones.read(spark), folder / f"{phones.name}-exact")
    plain = {f"−{delay} s": Unique(phones.raw(spark), delay, folder / f"{phones.name}-{delay}") for delay in delays_s}
    for part in parts(order, steps, paced_ms):
        phones.write(part)
        if reading is None:
            phones.note([each for each in pending if each.at_ms <= part[-1].received_ms])
            pending = [each for each in pending if each.at_ms > part[-1].received_ms]
        for query in (exact.query, *(each.query for each in plain.values())):
            query.processAllAvailable()
    phones.seal()
    windows = exact.finish()
    for each in plain.values():
        each.query.stop()
    lost = {"exact": len(order) - sum(windows.values())}
    return Result(lost | {name: len(order) - each.kept for name, each in plain.items()}, exact.dropped, windows)


def parts(order: Sequence[PhoneEvent], steps: int, paced_ms: int) -> Iterator[Sequence[PhoneEvent]]:
    """What comes together: equal steps, as fast as they are taken, and at the end what came in each PACE_S."""
    begin_ms = order[-1].received_ms - paced_ms
    at = next(number for number, each in enumerate(order) if each.received_ms >= begin_ms) if paced_ms else len(order)
    size = max(1, -(-at // steps))
    for start in range(0, at, size):
        yield order[start : min(start + size, at)]
    begun = time.monotonic()
    while at < len(order):
        due_s = max(PACE_S, (order[at].received_ms - begin_ms) / 1000 - (time.monotonic() - begun))
        time.sleep(due_s)
        now_ms = begin_ms + (time.monotonic() - begun) * 1000
        until = next((n for n in range(at + 1, len(order)) if order[n].received_ms > now_ms), len(order))
        yield order[at:until]
        at = until


def replay(spark: SparkSession, phones: Phones, folder: Path, rows: int) -> tuple[dict[int, int], float]:
    """The windows of a replay from the head, in batches of so many rows, and how many seconds it took."""
    begun = time.monotonic()
    exact = Windows(phones.read(spark, maxRowsPerBatch=rows), folder / f"{phones.name}-{rows}")
    return exact.finish(), time.monotonic() - begun


def span_ms(events: Iterable[PhoneEvent]) -> int:
    """How long it took to happen."""
    times = [each.event_ms for each in events]
    return max(times) - min(times)


def session(folder: Path, more: Mapping[str, Any] | None = None) -> SparkSession:
    """A session on two cores."""
    from spark_integration import prepare

    prepare()
    settings: dict[str, Any] = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.streaming.numRecentProgressUpdates": 100_000,
        **(more or {}),
    }
    made: SparkSession = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def rows_of(
    spark: SparkSession, connection: Connection, folder: Path, events: Sequence[PhoneEvent], steps: int
) -> Iterator[str]:
    """The lines of the table for one set of events."""
    yield f"{'':26}{'exact':>7}" + "".join(f"{f'−{delay} s':>8}" for delay in DELAYS_S)
    live = Phones(connection, folder, events)
    uneven = Phones(connection, folder, events)
    order = faster(events, devices_of(events)[0], 4)
    for name, phones, reading in (("live", live, None), ("one read 4 times as fast", uneven, order)):
        found = measure(spark, phones, folder, steps=steps, reading=reading)
        yield f"{name:25}" + "".join(f"{lost:>8}" for lost in found.lost.values())
        assert found.dropped == 0 and found.windows == phones.truth()
    span_s = span_ms(events) / 1000
    for rows in (101, 2_000):
        windows, took_s = replay(spark, live, folder, rows)
        same = "the same windows" if windows == live.truth() else "OTHER WINDOWS"
        yield f"replayed in batches of {rows:>5}: {same}, {span_s / took_s:.0f} times as fast as it happened"


def main() -> None:
    from tests.served import OwnProcess

    parser = argparse.ArgumentParser(description="Events that Spark loses, with the exact watermark and with its own.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=1_200, help="of each device that is made up")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("recordings", nargs="*", type=Path)
    given = parser.parse_args()
    sets = [(f"seed {given.seed}", generate(given.seed, events=given.events))]
    sets += [(path.name, load(path)) for path in given.recordings]
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        controller = OwnProcess(folder / "store.db")
        opened.callback(controller.stop)
        connection = opened.enter_context(Connection(controller.url))
        spark = session(folder)
        opened.callback(spark.stop)
        for name, events in sets:
            print(f"{name}: {len(events)} events of {len(devices_of(events))} devices; lost by", flush=True)
            for line in rows_of(spark, connection, folder, events, given.steps):
                print(line, flush=True)


if __name__ == "__main__":
    main()
