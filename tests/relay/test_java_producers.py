"""Java's producers note by records of a topic, under kills of producers, relays and brokers: no mark is untrue."""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.config import StreamConfig
from strandline.logs.kafka_reader import KafkaLogReader
from strandline.logs.kafka_topic import Topic
from tests.commands.conftest import STRANDLINE, environment
from tests.kafka import Kafka
from tests.served import served
from tests.summary import skip
from tools.preflight import compiler_package, installing

pytestmark = pytest.mark.full
PROGRAM = Path(__file__).with_name("NotingProducer.java")
KILLS = 6
PATIENCE_S = 60


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory, kafka_jars: Path) -> str:
    if shutil.which("javac") is None:
        skip("no Java development kit is installed", installing(compiler_package()))
    folder = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-cp", f"{kafka_jars}/*", "-d", str(folder), str(PROGRAM)], check=True)
    return f"{folder}:{kafka_jars}/*"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with served(tmp_path / "store.db") as connection:
        yield connection


class JavaWriter:
    """A process that writes and notes; the next one begins at the last time that this one was about to note."""

    def __init__(self, classes: str, kafka: Kafka, stream: str, notes: str, name: str, kind: str) -> None:
        self._words = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classes, "NotingProducer", kafka.servers]
        self._words += [stream, notes, name]
        self._kind = kind
        self.time = 0
        self.start()

    def start(self) -> None:
        words = [*self._words, str(self.time), self._kind]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._reading = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._reading.start()

    def _read(self, lines: Any) -> None:
        for line in lines:
            if line.strip().isdecimal():
                self.time = int(line)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join()


def start_relay(kafka: Kafka, connection: Connection, notes: str, log: Path) -> subprocess.Popen[str]:
    words = ["relay", "--servers", kafka.servers, "--topic", notes]
    with log.open("a") as said:
        return subprocess.Popen(
            [*STRANDLINE, *words],
            env=environment(STRANDLINE_CONTROLLER=connection.controller),
            stdout=subprocess.DEVNULL,
            stderr=said,
            text=True,
        )


@pytest.mark.parametrize("kind", ["idempotent", "transactional"])
def test_no_event_contradicts_a_mark_whatever_is_killed(
    classes: str, three_brokers: Kafka, connection: Connection, tmp_path: Path, kind: str
) -> None:
    kafka, stream, notes = three_brokers, f"events-{kind}", f"notes-{kind}"
    safe = {"min.insync.replicas": "2"}
    kafka.create_topic(stream, 3, config=safe)
    kafka.create_topic(notes, 2, config=safe)
    connection.run(
        calls.create_stream(
            stream, "open", StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None, min_writers=2)
        )
    )
    writers = [JavaWriter(classes, kafka, stream, notes, name, kind) for name in ("a", "b")]
    relays = [start_relay(kafka, connection, notes, tmp_path / "relays") for _ in range(2)]
    chance = random.Random(kind)
    try:
        wait_for_time(connection, stream, 20, tmp_path / "relays")
        for number in range(KILLS):
            time.sleep(chance.uniform(0.5, 2))
            what = ("writer", "relay", "broker")[number % 3]
            if what == "writer":
                writer = chance.choice(writers)
                writer.kill()
                writer.start()
            elif what == "relay":
                place = chance.randrange(2)
                relays[place].kill()
                relays[place].wait()
                relays[place] = start_relay(kafka, connection, notes, tmp_path / "relays")
            else:
                broker = chance.randrange(1, 4)
                kafka.kill(broker)
                time.sleep(chance.uniform(0, 3))
                kafka.start(broker)
        come = min(each.time for each in writers)
        wait_for_time(connection, stream, come + 1_000, tmp_path / "relays")
    finally:
        for each in writers:
            each.kill()
        for relay in relays:
            relay.kill()
            relay.wait()
    untrue = contradictions(kafka, connection, stream)
    assert not untrue, (untrue[:5], (tmp_path / "relays").read_text()[-2_000:])


def wait_for_time(connection: Connection, stream: str, wanted: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        latest = connection.run(calls.describe(stream)).latest_marks.get("")
        if latest is not None and latest.time >= wanted:
            return
        assert time.monotonic() < deadline, (latest, wanted, log.read_text()[-3_000:])
        time.sleep(0.2)


def contradictions(kafka: Kafka, connection: Connection, stream: str) -> list[tuple[int, str, int, int]]:
    """Events that are older than a complete mark whose cut does not lie above them: time, partition, offset, mark."""
    marks: list[Any] = []
    after = 0
    while page := connection.run(calls.marks(stream, after=after)).marks:
        marks += page
        after = page[-1].seq
    assert len(marks) > 5 and not any(each.excluded for each in marks)
    assert Topic(stream, kafka.client).partitions() == [0, 1, 2]
    found, events = [], 0
    kafka.wait_until_decided(stream)
    with KafkaLogReader(kafka.servers, stream) as reader:
        for segment, end in reader.end_offsets().items():
            for event in reader.rows(segment, 0, end):
                events += 1
                at = int(event.value or b"")
                found += [
                    (at, segment, event.offset, mark.time)
                    for mark in marks
                    if at < mark.time and event.offset >= mark.cut.get(segment, 0)
                ]
    assert events > 500
    return found
