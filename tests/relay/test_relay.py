"""`strandline relay` with a real Kafka and a real controller: notes of producers that have Kafka's client alone."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from strandline.client import calls
from strandline.client.http import Connection
from strandline.logs.kafka_topic import Topic
from tests.commands.conftest import STRANDLINE, environment
from tests.kafka import Kafka
from tests.ports import free_ports
from tests.served import AT_ONCE, ROOT, OwnProcess, served
from writer_client.relay.topic import NotesTopic

pytestmark = pytest.mark.full
PATIENCE_S = 60
_names = iter(range(1_000))


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with served(tmp_path_factory.mktemp("controller") / "store.db") as connection:
        yield connection


class Site:
    """A topic of notes, a stream with its topic, and relays."""

    def __init__(self, kafka: Kafka, connection: Connection, folder: Path) -> None:
        number = next(_names)
        self.kafka, self.connection, self._folder = kafka, connection, folder
        self.notes, self.stream, self.group = f"relayed-notes-{number}", f"relayed-{number}", f"relay-{number}"
        kafka.create_topic(self.notes, 2)
        kafka.create_topic(self.stream, 2)
        connection.run(calls.create_stream(self.stream, "open", AT_ONCE))
        self.producer = Producer({**kafka.client, "acks": "all"})
        self.relays: list[subprocess.Popen[str]] = []

    def start(self, *more: str) -> subprocess.Popen[str]:
        words = ["relay", "--servers", self.kafka.servers, "--topic", self.notes, "--relay-group", self.group, *more]
        given = environment(STRANDLINE_CONTROLLER=self.connection.controller)
        log = (self._folder / f"relay-{len(self.relays)}").open("w+")
        self.relays.append(
            subprocess.Popen(
                [*STRANDLINE, *words], cwd=self._folder, env=given, stdout=subprocess.PIPE, stderr=log, text=True
            )
        )
        assert "relays the notes" in (self.relays[-1].stdout.readline() if self.relays[-1].stdout else "")
        return self.relays[-1]

    def said(self, number: int = 0) -> str:
        return (self._folder / f"relay-{number}").read_text()

    def events(self, *values: bytes, partition: int = 0) -> None:
        for value in values:
            self.producer.produce(self.stream, value, partition=partition)
        assert self.producer.flush(PATIENCE_S) == 0

    def note(self, writer: str, stream: str | None = None, **says: Any) -> None:
        self.record(json.dumps({"stream": stream or self.stream, "writer": writer, **says}).encode(), writer)

    def record(self, value: bytes, key: str = "x") -> None:
        self.producer.produce(self.notes, value, key=key)
        assert self.producer.flush(PATIENCE_S) == 0

    def writers(self, stream: str | None = None) -> dict[str, Any]:
        path = f"{self.connection.controller}/v1/streams/{stream or self.stream}/writers"
        return {each["writer"]: each for each in httpx.get(path).json().get("writers", ())}

    def until(self, holds: Callable[[dict[str, Any]], bool], stream: str | None = None) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while not holds(found := self.writers(stream)):
            assert time.monotonic() < deadline, (found, [self.said(each) for each in range(len(self.relays))])
            time.sleep(0.05)
        return found

    def end(self) -> None:
        for each in self.relays:
            if each.poll() is None:
                each.kill()
            each.wait()
            if each.stdout is not None:
                each.stdout.close()


@pytest.fixture
def site(kafka: Kafka, connection: Connection, tmp_path: Path) -> Iterator[Site]:
    made = Site(kafka, connection, tmp_path)
    yield made
    made.end()


def test_a_note_covers_all_that_was_acknowledged_before_it(site: Site) -> None:
    site.start()
    site.events(b"1", b"2")
    site.events(b"3", partition=1)
    site.note("till-7", time=4)
    found = site.until(lambda writers: "till-7" in writers and writers["till-7"]["times"] == {"": 4})
    assert found["till-7"]["position"] == {"0": 2, "1": 1}
    site.events(b"5")
    site.note("till-7", times={"": 6, "ship": 2})
    site.until(lambda writers: writers["till-7"]["times"] == {"": 6, "ship": 2})
    site.note("till-7", idle=True)
    site.until(lambda writers: writers["till-7"]["state"] == "idle")
    site.note("till-7", time=8)
    site.until(lambda writers: writers["till-7"]["state"] == "active")
    site.note("till-7", close=True)
    site.until(lambda writers: writers["till-7"]["state"] == "closed")


def test_a_time_far_ahead_of_the_clock_is_said_once_a_minute(site: Site) -> None:
    site.start()
    hour = int(time.time() * 1000) + 3_600_000
    for number in range(3):
        site.note("w", time=hour + number)
    site.until(lambda writers: "w" in writers and writers["w"]["times"] == {"": hour + 2})
    site.note("w", time=hour + 3)
    site.until(lambda writers: writers["w"]["times"] == {"": hour + 3})
    assert site.said().count("ahead of the controller's clock: look at the clock of w") == 1


def test_a_note_beyond_the_setting_is_refused_in_kafka_too_and_time_stays(site: Site) -> None:
    site.start()
    now = int(time.time() * 1000)
    site.connection.run(calls.configure(site.stream, {"max_ahead_ms": 300_000}))
    site.note("w", time=now)
    site.until(lambda writers: "w" in writers)
    site.note("w", time=now + 86_400_000)
    site.until(lambda _: "the note of w is refused" in site.said())
    site.note("w", time=now + 1)
    site.until(lambda writers: writers["w"]["times"] == {"": now + 1})
    assert "more than max_ahead_ms = 300000" in site.said()


def test_what_is_no_note_is_named_and_the_rest_goes_on(site: Site) -> None:
    site.start()
    site.record(b"rubbish")
    site.record(b'{"stream": "orders", "tiem": 5}')  # in the same partition, of which a line a minute is enough
    site.note("w", time=5)
    site.note("w", time=3)
    site.note("w", time=6)
    site.until(lambda writers: "w" in writers and writers["w"]["times"] == {"": 6})
    said = site.said()
    assert said.count("is no note, and is passed over") == 1 and "offset 0" in said and "rubbish" in said


def test_notes_for_a_stream_or_a_topic_that_is_not_there_are_named_and_the_next_ones_find_it(site: Site) -> None:
    later = f"{site.stream}-later"
    site.start()
    for number in range(3):
        site.note("early", stream=later, time=number)
        site.note("w", time=number)
        site.until(lambda writers: "w" in writers and writers["w"]["times"] == {"": number})  # noqa: B023  # called at once
    assert site.said().count(f"there is no stream '{later}': create it; notes of 1 writers are not kept") == 1
    site.connection.run(calls.create_stream(later, "open", AT_ONCE))
    site.note("early", stream=later, time=5)
    site.until(lambda _: f"has no topic '{later}': create it" in site.said(), later)
    assert site.writers(later)["early"]["times"] == {"": None}
    site.kafka.create_topic(later, 1)
    site.note("early", stream=later, time=6)
    site.until(lambda writers: writers["early"]["times"] == {"": 6}, later)
    site.connection.run(calls.delete_stream(later))
    site.note("early", stream=later, time=7)
    site.note("w", time=8)
    site.until(lambda writers: writers["w"]["times"] == {"": 8})
    site.connection.run(calls.create_stream(later, "open", AT_ONCE))
    site.note("early", stream=later, time=9)
    site.until(lambda writers: "early" in writers and writers["early"]["times"] == {"": 9}, later)


def test_a_new_partition_of_the_topic_of_notes_is_found_within_seconds(site: Site) -> None:
    site.start()
    site.note("w", time=5)
    site.until(lambda writers: "w" in writers)
    site.kafka.add_partitions(site.notes, 3)
    began = time.monotonic()
    new = Producer({**site.kafka.client, "acks": "all"})  # the other one does not know it yet
    new.produce(site.notes, json.dumps({"stream": site.stream, "writer": "new", "time": 6}).encode(), partition=2)
    assert new.flush(PATIENCE_S) == 0
    site.until(lambda writers: "new" in writers and writers["new"]["times"] == {"": 6})
    assert time.monotonic() - began < 20


def test_a_lower_time_notes_the_position_alone_and_the_other_keys(site: Site) -> None:
    site.start()
    site.note("w", times={"": 20, "ship": 5})
    site.until(lambda writers: "w" in writers and writers["w"]["times"] == {"": 20, "ship": 5})
    site.events(b"30")
    site.note("w", times={"": 15, "ship": 7}, idle=True)
    found = site.until(lambda writers: writers["w"]["state"] == "idle")
    assert (found["w"]["times"], found["w"]["position"]) == ({"": 20, "ship": 7}, {"0": 1})


def test_a_topic_that_was_created_again_is_named_with_what_to_do_and_nobody_leaves(site: Site) -> None:
    site.start()
    site.events(b"1", b"2", b"3")
    site.note("w", time=4)
    site.until(lambda writers: "w" in writers and writers["w"]["times"] == {"": 4})
    site.kafka.recreate_topic(site.stream, 2)
    site.note("w", time=9, close=True)
    advice = "if the topic was created again, or lost its end, delete the stream and create it again"
    found = site.until(lambda _: f"(segment 0: 0, noted 3): {advice}" in site.said())
    assert (found["w"]["times"], found["w"]["state"]) == ({"": 4}, "active")
    site.connection.run(calls.delete_stream(site.stream))
    site.connection.run(calls.create_stream(site.stream, "open", AT_ONCE))
    site.note("w", time=10)
    site.until(lambda writers: "w" in writers and writers["w"]["times"] == {"": 10})


def test_a_member_that_was_given_up_may_not_commit_though_the_group_is_empty_and_comes_back(site: Site) -> None:
    quick = {"session.timeout.ms": 6_000, "max.poll.interval.ms": 6_000, "auto.offset.reset": "earliest"}
    reads = {"enable.auto.commit": False, "enable.partition.eof": True}
    joins = {"group.id": site.group, "partition.assignment.strategy": "cooperative-sticky"}
    hung = Consumer({**site.kafka.client, **joins, **reads, **quick})
    records = NotesTopic(Topic(site.notes, site.kafka.client), hung)
    while not (records.is_read(0) and records.is_read(1)):
        records.take()
    assert records.commit({0: 0}) and records.gone() == set()
    while hung.memberid() is not None:  # it does not consume
        time.sleep(0.05)
    assert not records.commit({0: 0})
    records.take()
    assert records.gone() == {0, 1}
    while not (records.is_read(0) and records.is_read(1)):
        records.take()
    assert records.commit({0: 0})
    records.close()


@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGTERM])
def test_another_relay_goes_on_where_one_has_ended(site: Site, signal_: signal.Signals) -> None:
    first = site.start()
    site.note("w", time=5)
    site.until(lambda writers: "w" in writers)
    first.send_signal(signal_)
    first.wait()
    site.note("w", idle=True)
    site.note("w", time=6)
    site.start()
    found = site.until(lambda writers: writers["w"]["times"] == {"": 6})
    assert found["w"]["state"] == "active"


def test_a_relay_that_was_stopped_says_nothing_old_when_it_goes_on(site: Site) -> None:
    stopped = site.start()
    site.note("w", time=5)
    site.until(lambda writers: "w" in writers)
    stopped.send_signal(signal.SIGSTOP)
    site.note("w", time=6, idle=True)
    second = site.start()
    site.note("w", time=7)
    site.until(lambda writers: writers["w"]["times"] == {"": 7})
    stopped.send_signal(signal.SIGCONT)
    for number in range(8, 28):
        site.note("w", time=number)
        time.sleep(0.1)
        assert site.writers()["w"]["state"] in ("active", "joined")  # as a relay that takes over registers it
    site.until(lambda writers: writers["w"]["times"] == {"": 27})
    assert stopped.poll() is None and second.poll() is None


def test_it_goes_on_where_the_controller_was_away(site: Site, tmp_path: Path) -> None:
    database = tmp_path / "own.db"
    process = OwnProcess(database)
    site.connection = Connection(process.url)
    site.connection.run(calls.create_stream(site.stream, "open", AT_ONCE))
    site.start()
    site.note("w", time=5)
    site.until(lambda writers: "w" in writers)
    process.kill()
    site.note("w", time=6)
    time.sleep(1)
    again = OwnProcess(database, port=httpx.URL(process.url).port or 0)
    site.until(lambda writers: "w" in writers and writers["w"]["times"] == {"": 6})
    again.stop()


def test_a_relay_that_starts_while_a_partition_has_no_leader_notes_what_the_others_say(
    three_brokers: Kafka, connection: Connection, tmp_path: Path
) -> None:
    site = Site(three_brokers, connection, tmp_path)
    three_brokers.recreate_topic(site.notes, 3, copies=1)
    dead = three_brokers.leader(site.notes, 0)
    three_brokers.kill(dead)
    try:
        while three_brokers.leader(site.notes, 0) >= 0:
            time.sleep(0.05)
        site.start()
        alive = Producer({**three_brokers.client, "acks": "all"})
        alive.produce(site.notes, json.dumps({"stream": site.stream, "writer": "w", "time": 5}).encode(), partition=1)
        assert alive.flush(PATIENCE_S) == 0
        site.until(lambda writers: "w" in writers and writers["w"]["times"] == {"": 5})
        site.until(lambda _: "its notes wait for partition 0: " in site.said())
    finally:
        three_brokers.start(dead)
    alive.produce(site.notes, json.dumps({"stream": site.stream, "writer": "v", "time": 5}).encode(), partition=0)
    assert alive.flush(PATIENCE_S) == 0
    site.until(lambda writers: "v" in writers)
    site.end()


def test_its_counts_and_its_lag_are_prometheus_metrics(site: Site) -> None:
    (port,) = free_ports(1)
    site.start("--metrics", f"127.0.0.1:{port}")
    site.note("w", time=5)
    site.record(b"rubbish")
    site.until(lambda writers: "w" in writers)
    deadline = time.monotonic() + PATIENCE_S
    wanted = (
        'strandline_relay_results_total{result="noted"} 1.0',
        'strandline_relay_results_total{result="not_a_note"} 1.0',
        'strandline_relay_lag_records{partition="0"} 0.0',
        "strandline_relay_owed_writers 0.0",
    )
    while not all(each in (text := httpx.get(f"http://127.0.0.1:{port}/metrics").text) for each in wanted):
        assert time.monotonic() < deadline, text
        time.sleep(0.05)


def test_a_topic_that_is_not_there_is_said(site: Site) -> None:
    words = ["relay", "--servers", site.kafka.servers, "--topic", "none", "--controller", site.connection.controller]
    done = subprocess.run([*STRANDLINE, *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "has no topic 'none'" in done.stderr, done.stderr
