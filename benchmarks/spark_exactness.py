"""What Spark drops of out-of-order events: with the exact watermark, and with its own at several delays. On real Spark.

    python -m benchmarks.spark_exactness [--seed 1] [--events 1200] [--steps 100] [recorded.csv …]

Phones write to a log, a segment each, and note what was acknowledged; `benchmarks.disorder` says where the events come
from. Each set is read live, and again with one segment read four times as fast as the others. After each of `--steps`
parts all queries catch up, so that a batch has what came in the meantime, as with a trigger every few seconds; fewer
steps drop less. In the end the windows of the live run are compared with two replays in batches of other sizes.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

from pyspark.sql import DataFrame, SparkSession, functions

from benchmarks.disorder import NotedAt, PhoneEvent, devices_of, faster, generate, load, notes, own_segments
from benchmarks.figures import Figure, Report, arguments, run
from benchmarks.servers import scratch
from benchmarks.starting import RestartingQuery
from spark_integration import read_events
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.note import Note
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from tests.served import AT_ONCE, served

DELAYS_S: Final = (1, 5, 10, 60)
WINDOW_MS: Final = 1_000
PACE_S: Final = 0.5
REPLAYED_ROWS: Final = (101, 2_000)  # in a batch
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
        connection.run(calls.create_stream(self.name, len(self.segments), AT_ONCE))
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


class WindowCounts:
    """A query with the exact watermark, and every window that it emitted."""

    def __init__(self, events: DataFrame, checkpoint: Path) -> None:
        self.emitted: Counter[int] = Counter()
        counts = events.groupBy(functions.window("at", f"{WINDOW_MS} milliseconds")).count()
        writer = counts.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(checkpoint))
        self.query = RestartingQuery(writer.start)
        self.query.until_at_rest()  # on a busy machine the workers of five queries do not all start in time

    def _keep(self, batch: DataFrame, _: int) -> None:
        for row in batch.select(functions.unix_millis("window.start").alias("start"), "count").collect():
            self.emitted[row["start"]] += row["count"]

    def finish(self) -> dict[int, int]:
        self.query.until_at_rest()
        self.query.stop()
        return dict(self.emitted)

    @property
    def dropped(self) -> int:
        reports = [each for start in self.query.starts for each in start.recentProgress]
        return sum(one.numRowsDroppedByWatermark for each in reports for one in each.stateOperators)


class Unique:
    """A query with Spark's own watermark, which asks of each event whether it is late; and how many came through."""

    def __init__(self, events: DataFrame, delay_s: int, checkpoint: Path) -> None:
        self.counted = 0
        watched = events.withWatermark("at", f"{delay_s} seconds").dropDuplicates(["at", "device", "sequence"])
        writer = watched.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(checkpoint))
        self.query = RestartingQuery(writer.start)
        self.query.until_at_rest()  # as above

    def _keep(self, batch: DataFrame, _: int) -> None:
        self.counted += batch.count()


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
    exact = WindowCounts(phones.read(spark), folder / f"{phones.name}-exact")
    plain = {f"−{delay} s": Unique(phones.raw(spark), delay, folder / f"{phones.name}-{delay}") for delay in delays_s}
    for part in parts(order, steps, paced_ms):
        phones.write(part)
        if reading is None:
            phones.note([each for each in pending if each.at_ms <= part[-1].received_ms])
            pending = [each for each in pending if each.at_ms > part[-1].received_ms]
        for query in (exact.query, *(each.query for each in plain.values())):
            query.until_at_rest()
    phones.seal()
    windows = exact.finish()
    for each in plain.values():
        each.query.stop()
    lost = {"exact": len(order) - sum(windows.values())}
    return Result(lost | {name: len(order) - each.counted for name, each in plain.items()}, exact.dropped, windows)


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
    exact = WindowCounts(phones.read(spark, maxRowsPerBatch=rows), folder / f"{phones.name}-{rows}")
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
        "spark.python.unix.domain.socket.enabled": True,  # as docs/spark.md advises
        "spark.sql.streaming.numRecentProgressUpdates": 100_000,
        **(more or {}),
    }
    made: SparkSession = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


@dataclass(frozen=True, slots=True)
class Stage:
    """What a benchmark on Spark plays on."""

    folder: Path
    connection: Connection
    spark: SparkSession

    @classmethod
    def open(cls, opened: ExitStack, more: Mapping[str, Any] | None = None) -> Self:
        """A scratch folder, a controller, and a session."""
        folder = opened.enter_context(scratch())
        connection = opened.enter_context(served(folder / "store.db"))
        spark = session(folder, more)
        opened.callback(spark.stop)
        return cls(folder, connection, spark)


def compare(stage: Stage, events: Sequence[PhoneEvent], options: argparse.Namespace) -> Iterator[Figure]:
    """What is lost of one set of events, live and in an uneven replay; prints the lines of its table."""
    print(f"{'':26}{'exact':>7}" + "".join(f"{f'−{delay} s':>8}" for delay in DELAYS_S), flush=True)
    live, uneven = (Phones(stage.connection, stage.folder, events) for _ in range(2))
    order = faster(events, devices_of(events)[0], 4)
    for name, phones, reading in (("live", live, None), ("one read 4 times as fast", uneven, order)):
        found = measure(stage.spark, phones, stage.folder, steps=options.steps, reading=reading)
        print(f"{name:25}" + "".join(f"{lost:>8}" for lost in found.lost.values()), flush=True)
        assert found.dropped == 0 and found.windows == phones.truth()
        exact, *plain = found.lost.values()
        by_delay = dict(zip(DELAYS_S, plain, strict=True))
        yield Figure.lost(f"events lost in Spark, {name}", exact, len(events), by_delay)
    span_s = span_ms(events) / 1000
    for rows in REPLAYED_ROWS if options.replays else ():
        windows, took_s = replay(stage.spark, live, stage.folder, rows)
        same = "the same windows" if windows == live.truth() else "OTHER WINDOWS"
        print(f"replayed in batches of {rows:>5}: {same}, {span_s / took_s:.0f} times as fast as it happened")


def measure_all(options: argparse.Namespace) -> Report:
    sets = [(f"seed {options.seed}", generate(options.seed, events=options.events))]
    sets += [(path.name, load(path)) for path in options.recordings]
    report = Report()
    with ExitStack() as opened:
        stage = Stage.open(opened)
        for name, events in sets:
            print(f"{name}: {len(events)} events of {len(devices_of(events))} devices; lost by", flush=True)
            report.figures.extend(compare(stage, events, options))
    return report


def main() -> None:
    parser = arguments(__doc__, seed=1, events=1_200, steps=100, replays=1)
    parser.add_argument("recordings", nargs="*", type=Path)
    run(measure_all, parser.parse_args())


if __name__ == "__main__":
    main()
