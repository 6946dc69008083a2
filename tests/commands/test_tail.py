"""`tail`: marks from the end of a log alone, true by the broker's own append times; and what it warns of."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from strandline.logs import Event, StoredEvent
from strandline.logs.sqlite import SqliteLog, system_clock_ms
from strandline.logs.sqlite_reader import SqliteLogReader
from tests.mute import MuteWire

pytestmark = pytest.mark.full

LINES, ROUNDS = 20, 8  # a round of lines, and then a mark
INTERVAL_MS = "500"  # a replica of a busy machine may need some of that before an append shows


def untrue(marks: Sequence[Mapping[str, Any]], events: Sequence[StoredEvent]) -> list[str]:
    """Each mark beside each event: what was appended before its time has to lie below its cut."""
    return [
        f"{event.segment}@{event.offset} was appended at {event.appended_at}, mark {mark['seq']} at {mark['time']}"
        for mark in marks
        for event in events
        if event.appended_at < mark["time"] and event.offset >= mark["cut"].get(event.segment, 0)
    ]


class Console:
    """Kafka's own console producer, which knows nothing of marks."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)

    def type(self, lines: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(("x" * 1500 + "\n") * lines)  # so long that it changes partitions now and then
        self._process.stdin.flush()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0


@pytest.fixture
def stream(served: Any) -> str:
    name: str = served.stream(time_domain="ingestion", segments="open")
    return name


def test_tailed_marks_of_a_console_producers_topic_are_true(
    three_brokers: Any, served: Any, start: Callable[..., subprocess.Popen[str]], stream: str
) -> None:
    from strandline.logs.kafka_reader import KafkaLogReader

    three_brokers.create_topic(stream, 3, config={"message.timestamp.type": "LogAppendTime"})
    words = ("--servers", three_brokers.servers, "--interval-ms", INTERVAL_MS, "--json")
    tails = [
        start("tail", stream, "--reporter", name, *words)
        for name in ("tail-1", "tail-2")  # two, for safety
    ]
    console = Console(three_brokers.command(
        "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", three_brokers.servers, "--topic", stream
    ))  # fmt: skip  # it is one command
    marks: list[dict[str, Any]] = []

    def wait_for_marks(enough: Callable[[], bool]) -> None:
        for _ in range(1000):
            after = marks[-1]["seq"] if marks else 0
            marks.extend(
                served.call("GET", f"/v1/streams/{stream}/marks?after={after}&limit=1000&wait_ms=10000")["marks"]
            )
            if enough():
                return
        raise AssertionError(f"there are {len(marks)} marks")

    def covered() -> int:
        return sum(marks[-1]["cut"].values()) if marks else 0

    for _ in range(ROUNDS):
        console.type(LINES)
        before = covered()
        wait_for_marks(lambda before=before: covered() > before)  # type: ignore[misc]  # bound now, as it has to be
    console.end()
    wait_for_marks(lambda: covered() == ROUNDS * LINES)
    for tail in tails:
        tail.terminate()
    with KafkaLogReader(three_brokers.servers, stream) as reader:
        events = [row for segment, end in reader.end_offsets().items() for row in reader.rows(segment, 0, end)]
    assert len(events) == ROUNDS * LINES
    assert len({tuple(sorted(mark["cut"].items())) for mark in marks}) > 3  # they came while it was written
    assert untrue(marks, events) == []
    assert untrue([{**mark, "time": mark["time"] + 10_000} for mark in marks], events)  # it can find something
    for tail in tails:
        reports, warnings = tail.communicate(timeout=30)
        assert "strandline tail:" not in warnings  # Kafka's client may tell of a broker that has just started
        assert len(reports.splitlines()) > 3


def test_it_warns_where_records_carry_their_producers_time(
    kafka: Any, outside: Callable[..., Any], stream: str
) -> None:
    kafka.create_topic(stream, 2)
    done = outside("tail", stream, "--servers", kafka.servers, "--once", "--interval-ms", "10", "--json")
    assert done.code == 0
    assert json.loads(done.out)["position"] == {"0": 0, "1": 0}
    assert "CreateTime" in done.err
    assert "LogAppendTime" in done.err


def test_an_embedded_log_is_tailed_as_well(
    strandline: Callable[..., Any], served: Any, stream: str, tmp_path: Path
) -> None:
    with SqliteLog.create(tmp_path / "log", 2) as log:
        log.append([Event(b"a", segment="1")])
    done = strandline("tail", stream, "--path", str(tmp_path / "log"), "--once", "--interval-ms", "10", "--json")
    assert (done.code, done.err) == (0, "")
    report = json.loads(done.out)
    assert report["position"] == {"0": 0, "1": 1}
    assert [mark["cut"] for mark in report["marks"]] == [{"1": 1}]
    assert report["marks"][0]["time"] == report["time"]


def test_it_warns_once_of_records_that_are_older_than_a_report_allowed(
    start: Callable[..., subprocess.Popen[str]], stream: str, tmp_path: Path
) -> None:
    clock = count(1_000)
    with SqliteLog.create(tmp_path / "log", 2, clock=clock.__next__) as log:
        tail = start("tail", stream, "--path", str(tmp_path / "log"), "--interval-ms", "10", "--json")
        assert tail.stdout is not None
        assert tail.stderr is not None
        tail.stdout.readline()
        log.append([Event(b"a", segment="1")])  # stamped with a clock that is far behind
        warning = tail.stderr.readline()
        log.append([Event(b"b", segment="1")])
        while json.loads(tail.stdout.readline())["position"] != {"0": 0, "1": 2}:
            pass
        tail.terminate()
        _, more = tail.communicate(timeout=30)
    assert "segment 1 got a record that is older" in warning
    assert "clock_skew_ms, which is 0" in warning
    assert more == ""


def test_it_goes_on_where_answers_are_lost_and_reports_come_twice(
    start: Callable[..., subprocess.Popen[str]], served: Any, tmp_path: Path
) -> None:
    # An append is stamped before it is there, and on a busy disk that takes longer than the interval.
    stream = served.stream(time_domain="ingestion", segments="open", clock_skew_ms=1_000)
    words = ("--path", str(tmp_path / "log"), "--interval-ms", "10", "--json")
    # When each append had returned: the time in the log is taken before the event can be seen by others.
    returned_at: list[int] = []
    with SqliteLog.create(tmp_path / "log", 2) as log, closing(MuteWire(urlsplit(served.url).port or 0)) as wire:
        tail = start("tail", stream, *words, controller=f"http://127.0.0.1:{wire.port}")
        assert tail.stdout is not None
        tail.stdout.readline()
        for number in range(20):
            wire.losing += number % 3
            log.append([Event(b"a", segment="1")])
            returned_at.append(system_clock_ms())
            json.loads(tail.stdout.readline())
        last = log.append([Event(b"a", segment="1")])
        returned_at.append(system_clock_ms())
        while json.loads(tail.stdout.readline())["position"]["1"] < last["1"]:
            pass
        assert tail.poll() is None and wire.losing == 0
        tail.terminate()
        with SqliteLogReader(tmp_path / "log") as reader:
            events = [replace(row, appended_at=returned_at[row.offset]) for row in reader.rows("1", 0, last["1"])]
    assert untrue(served.call("GET", f"/v1/streams/{stream}/marks?limit=1000")["marks"], events) == []


def test_a_line_that_is_no_setting_is_told_without_what_it_says(
    outside: Callable[..., Any], stream: str, tmp_path: Path
) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("client.id=tail\n\nsasl.password: hunter2\n")
    done = outside("tail", stream, "--servers", "127.0.0.1:1", "--settings", str(settings))
    assert "line 3 of" in done.err
    assert "hunter2" not in done.err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "security.protocl=hunter2",
            "the setting 'security.protocl' of a log cannot be 'what was given': Kafka's client",
        ),
        ("security.protocol=SSLL", "the setting 'security.protocol' of a log cannot be 'SSLL': Kafka's client reports"),
    ],
)
def test_a_setting_that_kafkas_client_does_not_take_is_named(
    outside: Callable[..., Any], stream: str, tmp_path: Path, line: str, told: str
) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text(f"{line}\n")
    for words in (("tail", stream), ("assess", "--topic", stream), ("audit", stream)):
        done = outside(*words, "--servers", "127.0.0.1:1", "--settings", str(settings))
        assert done.code != 0 and told in done.err
        assert "hunter2" not in done.err
