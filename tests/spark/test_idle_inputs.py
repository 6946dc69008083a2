"""One query over several streams, of which one is idle: with a group that they share, the others close the windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from reader_client import ReaderGroup
from spark_integration import attach, detach, exact_watermark
from spark_integration.positions import FilePositions
from spark_integration.releases import HAS_LIMITS, ReadAllAvailable
from spark_integration.rows import SCHEMA
from spark_integration.source import StrandlineSource
from strandline.client import calls
from strandline.core.note import Note
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from tests.spark.attached import Folder, finish

WIDTH_MS = 10_000

Read = Callable[..., DataFrame]

pytestmark = pytest.mark.spark


class Side:
    """A stream of one segment and its writer."""

    def __init__(self, controller: Any, path: Path) -> None:
        self.stream, self.path, self.name = controller.stream(segments=1), path, path.stem
        self._log = SqliteLog.create(path, 1)
        self.written: list[int] = []

    def write(self, *times: int) -> None:
        self._log.append(Event(b"%d" % time, key=b"same", segment="0") for time in times)
        self.written += times

    def note(self, time: int) -> int | None:
        """Notes a time; returns the floor that the writer is told."""
        position = {"0": len(self.written)}
        answer = self.stream.run(calls.note(self.stream.name, Note(writer="w", times={"": time}, position=position)))
        floor: int | None = answer.floor
        return floor

    def idle(self) -> None:
        self.stream.run(calls.idle(self.stream.name, "w"))

    def close(self) -> None:
        self.stream.run(calls.close(self.stream.name, "w"))

    def seal(self) -> None:
        self.stream.seal(self._log.seal())

    def exact(self, read: Read, **options: object) -> DataFrame:
        events = read(stream=self.stream.name, path=self.path, **options)
        return exact_watermark(events, event_time="event_time", observation=self.name)


@pytest.fixture
def sides(controller: Any, tmp_path: Path) -> tuple[Side, Side]:
    return Side(controller, tmp_path / "one.db"), Side(controller, tmp_path / "other.db")


@pytest.fixture
def detached(spark: SparkSession) -> Iterator[None]:
    yield
    detach(spark)


def windows(*inputs: DataFrame) -> DataFrame:
    one, *others = inputs
    for other in others:
        one = one.union(other)
    return one.groupBy(functions.window("event_time", f"{WIDTH_MS} milliseconds")).count()


def counted(*inputs: Any) -> dict[int, int]:
    return dict(Counter(time // WIDTH_MS * WIDTH_MS for each in inputs for time in each.written))


def watermark(run: Any, batch: int) -> tuple[str, list[int | None]]:
    """Spark's watermark in a batch, and the marks that its sources yield for the next one."""
    (found,) = (each for each in run.progress() if each.batchId == batch)
    return found.eventTime["watermark"], [metrics["mark"] for metrics in found.observedMetrics.values()]


#   one      1 s  2 s  idle                             back: 15 s | 42 s
#   other    1 s     ·     12 s          32 s                            43 s   end
#   windows                      0        10 s, 20 s
def test_an_idle_side_of_a_union_is_left_out_through_restarts_until_it_is_back(
    read: Read, running: Any, sides: tuple[Side, Side], tmp_path: Path
) -> None:
    one, other = sides

    def union() -> DataFrame:
        return windows(one.exact(read, group="union"), other.exact(read, group="union"))

    with running(union()) as run:
        one.write(1_000)
        one.note(2_000)
        other.write(1_500, 8_000)
        other.note(12_000)
        assert run.settle() == {}  # the one may go on below ten seconds
        one.idle()
        assert run.settle() == {0: 3}
        other.write(13_000, 29_000)
        other.note(32_000)
        assert run.settle() == {0: 3, 10_000: 1, 20_000: 1}
    batch = max(each.batchId for each in run.progress() if each.numInputRows)
    for kind, first in (("commits", batch), ("offsets", batch + 1)):  # as if the driver had died within that batch
        for path in (tmp_path / "checkpoint" / kind).iterdir():
            if int(path.name.strip(".").partition(".")[0]) >= first:
                path.unlink()
    run.batches = {each: run.batches[each] for each in run.batches if each <= batch}
    with running(union(), before=run, exact=False) as again:
        assert again.settle() == {0: 3, 10_000: 1, 20_000: 1}
        assert watermark(again, batch) == watermark(run, batch)
        assert 32_000 in watermark(run, batch)[1]
        one.write(15_000, 42_000)  # back, and its first event is older than what the windows waited for
        assert one.note(41_000) == 32_000  # below it, events are late: it is told
        other.write(43_000)
        other.note(43_000)
        assert again.settle() == {0: 3, 10_000: 1, 20_000: 1}
        late = [each.observedMetrics["one"]["late"] for each in again.progress() if "one" in each.observedMetrics]
        assert (sum(late), again.dropped()) == (1, 1)
        one.seal()
        other.seal()
        assert again.settle() == counted(one, other) | {10_000: 1}


def test_without_a_group_an_idle_side_holds_every_window(read: Read, running: Any, sides: tuple[Side, Side]) -> None:
    one, other = sides
    one.write(1_000)
    one.note(2_000)
    one.close()
    other.write(1_500)
    other.note(12_000)
    with running(windows(one.exact(read), other.exact(read))) as run:
        assert run.settle() == {}
        one.seal()
        assert run.settle() == {0: 2}


@pytest.mark.full
@pytest.mark.parametrize("idle_first", [True, False])
def test_an_available_now_run_closes_what_the_other_side_completes(
    read: Read, running: Any, sides: tuple[Side, Side], idle_first: bool
) -> None:
    def runs(before: Any = None) -> Any:
        for _ in range(1 if HAS_LIMITS else 5):
            inputs = [side.exact(read, group=f"now-{idle_first}") for side in (sides if idle_first else sides[::-1])]
            with running(windows(*inputs), available_now=True, before=before) as before:
                before.finish()
        return before

    one, other = sides
    one.write(1_000)
    one.note(2_000)
    one.idle()
    other.write(1_500, 12_000)
    other.note(12_000)
    first = runs()
    assert first.windows() == {0: 2}
    other.write(21_000, 22_000, 33_000)
    other.note(32_000)
    assert runs(first).windows() == {0: 2, 10_000: 1, 20_000: 2}


@pytest.mark.full
@pytest.mark.parametrize("idle_first", [True, False])
def test_an_idle_attached_folder_is_left_out(
    spark: SparkSession, controller: Any, running: Any, tmp_path: Path, detached: None, idle_first: bool
) -> None:
    one, other = (Folder(tmp_path / name, controller.stream(segments="open")) for name in ("one", "other"))

    def events(folder: Folder) -> DataFrame:
        raw = spark.readStream.schema("time bigint").json(str(folder.path))
        return attach(
            spark, raw.select(functions.timestamp_millis("time").alias("event_time")), event_time="event_time",
            controller=folder.stream.url, stream=folder.stream.name,
            positions=FilePositions(tmp_path / "checkpoint", folder=folder.path), group="folders",
        )  # fmt: skip

    def go(before: Any = None) -> Any:
        inputs = [events(folder) for folder in ((one, other) if idle_first else (other, one))]
        with running(windows(*inputs), available_now=True, before=before) as run:
            finish(spark, run)
        return run

    one.put("a", [1_000])
    one.mark(2_000)
    one.stream.run(calls.idle(one.stream.name, "script"))
    other.put("b", [1_500, 12_000])
    other.mark(12_000)
    first = go()
    third = first if HAS_LIMITS else go(go(first))
    assert third.windows() == {0: 2}
    other.put("b", [21_000, 33_000])
    other.mark(32_000)
    fourth = go(third)
    last = fourth if HAS_LIMITS else go(go(fourth))
    assert last.windows() == {0: 2, 10_000: 1, 20_000: 1}


class TestPlanning:
    """The offsets that two sources of one query plan, without Spark."""

    @pytest.fixture
    def plan(self, sides: tuple[Side, Side]) -> Iterator[Callable[..., Any]]:
        opened = []

        def plan(side: Side, **options: str) -> Any:
            given = {"controller": side.stream.url, "stream": side.stream.name, "path": str(side.path), **options}
            opened.append(StrandlineSource({**given, "group": f"of-{sides[0].stream.name}"}).streamReader(SCHEMA))
            return opened[-1]

        yield plan
        for reader in opened:
            reader.stop()

    def test_a_side_follows_only_what_is_read_and_only_while_it_is_idle(
        self, sides: tuple[Side, Side], plan: Callable[..., Any]
    ) -> None:
        one, other = sides
        first, second = plan(one), plan(other, maxEventTimeLag="500 ms")
        at, there = first.initialOffset(), second.initialOffset()

        def batch(reader: Any, start: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
            end = reader.latestOffset(start, ReadAllAvailable())
            return end, end["mark"]

        one.write(1_000)
        one.note(2_000)
        at, mark = batch(first, at)
        there, _ = batch(second, there)
        other.write(5_000)
        other.note(6_000)
        one.idle()
        assert (mark, batch(first, at)) == (2_000, (at, 2_000))  # the other side has read nothing yet
        there, mark = batch(second, there)
        assert mark == 5_500  # its own bound, less its lag
        at, mark = batch(first, at)
        assert mark == 6_000
        one.write(1_500)  # it did not register before it wrote
        at, mark = batch(first, at)
        assert mark == 6_000
        one.note(6_500)
        other.note(8_000)
        there, _ = batch(second, there)
        assert batch(first, at)[1] == 6_500
        one.close()
        at, mark = batch(first, at)
        assert mark == 8_000
        other.note(9_000)
        other.idle()  # and so nobody is left to follow
        there, mark = batch(second, there)
        assert (mark, batch(first, at)[1]) == (8_500, 8_000)

    def test_a_group_keeps_the_streams_of_all_sources_and_what_they_have_settled(
        self, sides: tuple[Side, Side], plan: Callable[..., Any]
    ) -> None:
        one, other = sides
        first, second = plan(one), plan(other)
        one.write(1_000)
        at = first.latestOffset(first.initialOffset(), ReadAllAvailable())
        second.latestOffset(second.initialOffset(), ReadAllAvailable())
        one.write(2_000)
        first.latestOffset(at, ReadAllAvailable())
        with ReaderGroup(one.stream.controller.connection, f"of-{one.stream.name}") as group:
            found = group.describe()
            assert found.streams == (one.stream.name, other.stream.name)
            assert [reader.reader for reader in found.readers] == sorted(found.streams)
            own = next(each for each in found.readers if each.reader == one.stream.name)
            assert own.owned == {one.stream.name: {"0": 2}}
            assert own.settled == {one.stream.name: {"0": 1}}
