"""Operators are exact on a cluster that loses an executor and then the driver, and through Spark Connect, where
sources that are not ours and chains are exact as well.

With STORY=full, as in `make soak`, all operators; else some, since tests/spark has all of them in one session.
"""

from __future__ import annotations

import json
import os
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.logs import Event
from strandline.logs.kafka import KafkaLog
from strandline.logs.sqlite import SqliteLog
from tests.spark.operators import OPERATORS, Rows, truth

if TYPE_CHECKING:
    from tests.kafka import Kafka
    from tests.served import OwnProcess
    from tests.spark_cluster.conftest import Machine, Story

FULL = os.environ.get("STORY") == "full"
CHAINED_JOB = Path(__file__).with_name("chained_job.py")
CONFIG = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None)

# A job may be started several times, on a machine that is too busy for Spark's bound of ten seconds.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.full]


def test_operators_give_the_truth_through_a_lost_executor_and_driver(
    cluster: str, machine: Machine, story: Story
) -> None:
    which = OPERATORS if FULL else ("tumbling", "joined")
    story.write(0, 21_000)
    job = machine.job(story.given(cluster, which), "job")
    job.wait_for(lambda: story.has_closed(10_000), "the first windows")
    lost = machine.executors()
    assert len(lost) == 2
    os.kill(lost[0], signal.SIGKILL)
    story.write(21_000, 41_000)
    job.wait_for(lambda: story.has_closed(30_000), "windows after an executor was lost")
    job.kill()
    story.write(41_000, 61_000)
    again = machine.job(story.given(cluster, which), "job again")
    again.wait_for(lambda: story.has_closed(50_000), "windows after the driver was killed")
    story.seal()
    story.stop()
    again.wait()
    assert story.rows() == truth_of((*which, "timers"), story.events)
    assert story.dropped == 0


def test_operators_give_the_truth_through_spark_connect(connect_server: str, machine: Machine, story: Story) -> None:
    which = OPERATORS if FULL else ("joined",)  # windows, deduplication and chains are in the next test
    story.write(0, 21_000)
    job = machine.job(story.given(connect_server, which), "connected")
    story.write(21_000, 41_000)
    story.seal()
    story.stop()
    job.wait()
    assert story.rows() == truth_of(which, story.events)
    assert story.dropped == 0


def truth_of(which: Collection[str], events: list[dict[str, Any]]) -> Rows:
    return Counter({row: count for row, count in truth(events).items() if row[0] in which})


class Till(ABC):
    """A writer, and what it has sold."""

    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection, self._stream = connection, stream
        self.times: list[int] = []

    @property
    @abstractmethod
    def position(self) -> dict[str, int]: ...

    @abstractmethod
    def _put(self, *times: int) -> None: ...

    def put(self, *times: int) -> None:
        self._put(*times)
        self.times += times

    def note(self, time: int) -> None:
        self._connection.run(calls.note(self._stream, Note(writer="w", times={"": time}, position=self.position)))

    def seal(self) -> None:
        self._connection.run(calls.seal(self._stream, self.position))

    def truth(self, before: int) -> list[list[int]]:
        """The windows of the second job that end before a time: an event counts where its window of the first ends."""
        ends = [time // 10_000 * 10_000 + 10_000 for time in self.times]
        counts = Counter(end // 30_000 * 30_000 for end in ends)
        return sorted([start, count] for start, count in counts.items() if start + 30_000 < before)


class Files(Till):
    """It puts numbered files in a folder."""

    def __init__(self, connection: Connection, stream: str, folder: Path) -> None:
        super().__init__(connection, stream)
        self._folder, self._count = folder, 0
        folder.mkdir()

    @property
    def position(self) -> dict[str, int]:
        return {"till": self._count}

    def _put(self, *times: int) -> None:
        hidden = self._folder / ".draft"
        hidden.write_text("".join(f'{{"time": {time}}}\n' for time in times))
        hidden.rename(self._folder / f"till-{self._count:06d}.json")
        self._count += 1


class InATopic(Till):
    """It appends to a topic of two partitions."""

    def __init__(self, connection: Connection, stream: str, kafka: Kafka) -> None:
        super().__init__(connection, stream)
        kafka.create_topic(stream, 2)
        self._log = KafkaLog.connect(kafka.servers, stream)

    @property
    def position(self) -> dict[str, int]:
        return dict(self._log.end_offsets())

    def _put(self, *times: int) -> None:
        self._log.append(Event(b"%d" % time, segment=str(time % 2)) for time in times)
        self._log.flush()

    def seal(self) -> None:
        super().seal()
        self._log.close()


#   seconds      0         10        20        30        40        50        60        70   75
#   notes                 9                                41                                end
#   first job    ··········|·········|·········|·········|·········|·········|·········|·····
#   second job   ······························|·····························|···············
@pytest.mark.parametrize("source", ["files", "kafka"])
def test_an_attached_source_and_a_chain_are_exact_through_spark_connect(
    connect_server: str,
    machine: Machine,
    controller: OwnProcess,
    tmp_path: Path,
    source: str,
    request: pytest.FixtureRequest,
) -> None:
    connection = Connection(controller.url)
    output = f"{source}-windows"
    for name, segments in ((source, "open"), (output, 2)):
        connection.run(calls.create_stream(name, segments, CONFIG))  # type: ignore[arg-type]  # a pair of kinds
    SqliteLog.create(tmp_path / "output.db", 2).close()
    given = {"where": connect_server, "controller": controller.url, "stream": source, "output": output, "topic": None}
    till: Till
    if source == "kafka":
        request.getfixturevalue("spark_kafka_jars")  # which the server began with
        kafka = request.getfixturevalue("kafka")
        till = InATopic(connection, source, kafka)
        given |= {"topic": source, "servers": kafka.servers}
    else:
        till = Files(connection, source, tmp_path / "files")
    out = tmp_path / "out"
    out.mkdir()
    till.put(21_000, 1_000, 9_999)
    till.put(4_000, 12_000)
    till.note(9_000)
    job = machine.job({**given, "out": str(out), "folder": str(tmp_path)}, f"chained-{source}", CHAINED_JOB)
    till.put(9_000, 45_000, 19_999)  # the first one is not late
    till.note(41_000)
    job.wait_for(lambda: _windows(out) == till.truth(before=40_000), "the first window of the second job")
    till.put(41_000, 58_000, 75_000)
    till.seal()
    job.wait_for(lambda: _windows(out) == till.truth(before=10**9), "every window after the sealed end")
    (out / "stop").touch()
    job.wait()
    assert (out / "dropped").read_text() == "0"
    assert connection.run(calls.describe(output)).sealed
    connection.close()


def _windows(out: Path) -> Any:
    file = out / "windows.json"
    return json.loads(file.read_text()) if file.exists() else None
