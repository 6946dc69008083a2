"""`audit`, on an embedded log and a controller in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli.client import ControllerClient
from reader_client.log_checks.audit import AuditedStream, AuditRun
from reader_client.log_checks.event_sources import EventFields
from strandline.client.calls import describe
from strandline.client.http import Connection
from strandline.core.segment import NewSegment
from strandline.logs import Event, LogReader, StoredEvent
from strandline.logs.places import SqliteFile
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader

NOON = 1_700_000_000_000  # 2023-11-14 22:13:20


class Orders:
    """A stream with its log: two tills that keep their word until they are told otherwise.

    segment 0   a 100   a 200          a 250   a 300
    segment 1           b 260
    marks                       250 at 0=2             300 at 0=4,1=1
    """

    def __init__(self, served: Any, folder: Path) -> None:
        self.served = served
        self.stream = served.stream()
        self.path = folder / "orders.log"
        self.log = SqliteLog.create(self.path, 2)
        self.put("0", "a", 100, 200)
        self.note("a", 250, s0=2)
        self.put("0", "a", 250, 300)
        self.put("1", "b", 260)
        self.note("b", 300, s1=1)
        self.note("a", 400, s0=4)

    def put(self, segment: str, till: str, *times: int) -> None:
        values = [json.dumps({"at": NOON + time, "till": till}).encode() for time in times]
        self.log.append([Event(value, segment=segment) for value in values])

    def note(self, writer: str, time: int, **position: int) -> None:
        self.served.note(self.stream, writer, NOON + time, **position)


@pytest.fixture
def orders(served: Any, tmp_path: Path) -> Iterator[Orders]:
    made = Orders(served, tmp_path)
    yield made
    made.log.close()


Audit = Callable[..., Any]


@pytest.fixture
def audit(orders: Orders, strandline: Callable[..., Any]) -> Audit:
    """Runs it on the log; returns what it left with and, of JSON, what it said."""

    def run(*words: str | Path) -> tuple[int, Any]:
        done = strandline(
            "audit", orders.stream, "--path", str(orders.path), "--field", "at", "--json", *map(str, words)
        )
        return done.code, json.loads(done.out) if done.out else done.err

    return run


def test_a_log_whose_writers_kept_their_word_leaves_with_0(
    orders: Orders, audit: Audit, strandline: Callable[..., Any]
) -> None:
    code, found = audit()
    assert (code, found["events"], found["broken"], found["left_out"], found["late"]) == (0, 5, 0, 0, [])
    assert found["position"] == {"0": 4, "1": 1}
    done = strandline("audit", orders.stream, "--path", str(orders.path), "--field", "at")
    expected = "5 events in 2 segment(s), marks up to 2023-11-14 22:13:20.300Z: every promise was kept"
    assert (done.code, done.out, done.err) == (0, f"{orders.stream}: {expected}\n", "")


def test_a_writer_that_lied_is_named_with_the_event_and_the_mark(
    orders: Orders, audit: Audit, strandline: Callable[..., Any]
) -> None:
    orders.put("0", "a", 120)
    orders.note("a", 500, s0=5)
    code, found = audit()
    (late,) = found["late"]
    assert (code, found["broken"], found["most_late_ms"]) == (1, 1, 180)
    assert (late["segment"], late["offset"], late["time"], late["mark_time"], late["mark_seq"]) == (
        "0",
        4,
        NOON + 120,
        NOON + 300,
        2,
    )
    assert [each["writer"] for each in late["could_have_written"]] == ["a"]
    done = strandline("audit", orders.stream, "--log", str(orders.path), "--field", "at", "--plain-times")
    assert done.code == 1 and done.out.splitlines()[0].endswith(": 1 broke a promise")
    assert done.out.splitlines()[-1].split() == [
        "0", "4", str(NOON + 120), str(NOON + 300), "(seq", "2)", "0.2", "s", "perhaps", "a"
    ]  # fmt: skip


def test_late_events_of_a_writer_that_marks_leave_out_break_no_promise(
    orders: Orders, audit: Audit, strandline: Callable[..., Any]
) -> None:
    orders.served.call("POST", f"/v1/streams/{orders.stream}/writers/b/exclude")  # a mark of 400 leaves it out
    orders.put("1", "b", 350)
    code, found = audit()
    (late,) = found["late"]
    assert (code, found["broken"], found["left_out"]) == (0, 0, 1)
    assert (late["left_out"], late["left_out_writers"]) == (True, ["b"])
    done = strandline("audit", orders.stream, "--path", str(orders.path), "--field", "at")
    assert (done.code, done.out.splitlines()[0][-32:]) == (0, "no promise is known to be broken")
    assert done.out.endswith("perhaps b (left out)\n")
    assert audit("--strict")[0] == 1
    orders.put("1", "a", 350)  # whom that mark counts
    code, found = audit("--writer", "till")
    assert (code, found["broken"], found["left_out"]) == (1, 1, 1)
    assert [(each["writer"], each["left_out"]) for each in found["late"]] == [("b", True), ("a", False)]
    assert found["writers"] == {
        "b": {"broken": 0, "left_out": 1, "most_late_ms": 50},
        "a": {"broken": 1, "left_out": 0, "most_late_ms": 50},
    }


def test_an_audit_goes_on_where_the_last_one_ended(orders: Orders, audit: Audit, tmp_path: Path) -> None:
    state = ("--state", tmp_path / "audit.json")
    assert audit(*state)[1]["events"] == 5
    orders.put("0", "a", 120)
    code, found = audit(*state)
    assert (code, found["events"], found["broken"], found["position"]) == (1, 1, 1, {"0": 4, "1": 1})
    orders.note("a", 500, s0=5)
    orders.note("b", 500, s1=1)  # the mark of 500 lies above the event: nothing more can be said of it
    assert audit(*state)[1]["broken"] == 1
    assert audit(*state)[1]["events"] == 0
    assert audit("--from", "0=4,1=1")[1]["events"] == 1


def test_a_segment_that_was_split_and_its_successors_are_judged(orders: Orders, audit: Audit) -> None:
    halves = [NewSegment("2", 0.0, 0.25), NewSegment("3", 0.25, 0.5)]
    orders.log.scale(["0"], halves)
    body = {"seal": {"0": 4}, "create": [{"id": each.id, "low": each.low, "high": each.high} for each in halves]}
    orders.served.call("POST", f"/v1/streams/{orders.stream}/scale", body)
    orders.put("2", "a", 450, 290)  # the second one is older than the mark of 300, which did not know the segment
    orders.note("a", 500, s2=2)
    code, found = audit()
    assert (code, found["position"]) == (1, {"0": 4, "1": 1, "2": 0, "3": 0})
    assert [(each["segment"], each["offset"], each["mark_time"] - NOON) for each in found["late"]] == [("2", 1, 300)]
    assert [each["writer"] for each in found["late"][0]["could_have_written"]] == ["a"]


def test_each_time_key_is_audited_by_its_own_field(served: Any, strandline: Callable[..., Any], tmp_path: Path) -> None:
    stream, path = served.stream(), tmp_path / "keyed.log"
    with SqliteLog.create(path, 2) as log:
        rows = [{"ordered": 5, "shipped": 9}, {"ordered": 6}, {"ordered": 12, "shipped": 14}]
        log.append([Event(json.dumps(row).encode(), segment="0") for row in rows])
        note = {"writer": "w", "times": {"order": 10, "ship": 15}, "position": {"0": 2}}
        served.call("POST", f"/v1/streams/{stream}/notes", note)
        words = ("audit", stream, "--path", str(path), "--json")
        done = strandline(*words, "--key", "order", "--field", "ordered")
        assert (done.code, json.loads(done.out)["events"]) == (0, 3)
        done = strandline(*words, "--key", "ship", "--field", "shipped")
        found = json.loads(done.out)
        assert (done.code, found["broken"], found["without_time"]) == (1, 1, 1)


class Stopped(SqliteLogReader):
    """Ctrl-C comes while its fourth event is read."""

    read_rows = 0

    def rows(self, segment: str, start: int, end: int) -> Iterator[StoredEvent]:
        for each in super().rows(segment, start, end):
            self.read_rows += 1
            if self.read_rows == 4:
                raise KeyboardInterrupt
            yield each


class StoppedFile(SqliteFile):
    def open_reader(self) -> LogReader:
        return Stopped(self.path)


def test_a_stopped_audit_and_the_one_that_goes_on_name_all_late_events_once(orders: Orders, tmp_path: Path) -> None:
    orders.put("0", "a", 120)
    orders.note("a", 500, s0=5)
    orders.put("0", "a", 130)
    orders.note("b", 500, s1=1)
    with Connection(orders.served.url) as connection:
        client = ControllerClient(connection)
        answer = client.ask(describe(orders.stream))
        stream = AuditedStream(orders.stream, "", answer.json["created_at"], False, 1, answer.value)

        def run(log: SqliteFile, state: str) -> AuditRun:
            fields, file = EventFields("at", writer="till"), tmp_path / state
            audit = AuditRun(connection, stream, log, fields, log_name="orders.log", most=9, state=file, begin={})
            audit.run()
            return audit

        whole = run(SqliteFile(str(orders.path)), "whole")
        stopped = run(StoppedFile(str(orders.path)), "parts")
        assert (stopped.stopped, stopped.position, stopped.counts["0"].events) == (True, {"0": 3, "1": 0}, 3)
        rest = run(SqliteFile(str(orders.path)), "parts")
    assert (rest.stopped, rest.counts["0"].events, rest.position) == (False, 3, whole.position)
    assert stopped.late + rest.late == whole.late
    assert whole.counts["0"].broken == whole.writers["a"].broken == 2


def test_what_was_removed_from_the_log_or_the_marks_is_said_not_to_be_judged(
    orders: Orders, audit: Audit, strandline: Callable[..., Any]
) -> None:
    orders.put("0", "a", 120)
    orders.log.truncate({"0": 1})
    code, found = audit()
    assert (code, found["events"], found["removed_offsets"], found["broken"]) == (1, 5, 1, 1)
    orders.served.call("POST", f"/v1/streams/{orders.stream}/truncate", {"head": {"0": 4, "1": 1}})
    code, found = audit()
    assert (code, found["unpromised"], found["broken"], found["oldest_mark_seq"]) == (1, 4, 1, 2)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--path", "{log}"), 2, "--field"),
        (("--path", "{log}", "--field", "at", "--record-time"), 2, "not both"),
        (("--field", "at"), 2, "Name the log: --path"),
        (
            ("--path", "{log}", "--field", "when"),
            1,
            "no event has a time: segment 1, offset 0: there is no field 'when'",
        ),
        (("--path", "{log}", "--field", "at", "--key", "ship"), 1, 'no mark in key ship: it has ""'),
        (("--path", "{log}", "--field", "at", "--from", "0=9"), 1, "ends at 4 there"),
        (("--path", "{log}", "--field", "at", "--from", "7=0"), 1, "no segment '7'"),
        (("--path", "{log}", "--field", "at", "--state", "{other}"), 1, "with stream 'other', not"),
        (("--path", "{log}", "--field", "at", "--state", "{log}"), 1, "no state of an audit"),
        (("--path", "nowhere.log", "--field", "at"), 1, "nowhere.log"),
    ],
)
def test_what_cannot_be_audited_is_an_error_that_says_why(
    orders: Orders, strandline: Callable[..., Any], tmp_path: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"about": {"version": 2, "stream": "other"}, "position": {}}')
    given = [each.format(log=orders.path, other=other) for each in words]
    done = strandline("audit", orders.stream, *given)
    assert (done.code, done.out) == (code, "") and told in done.err


def test_events_in_another_unit_than_the_marks_are_told_with_the_option(
    served: Any, strandline: Callable[..., Any], tmp_path: Path
) -> None:
    stream = served.stream()
    path = tmp_path / "orders.log"
    with SqliteLog.create(path, 2) as log:
        log.append([Event(json.dumps({"at": NOON // 1_000 + second}).encode(), segment="0") for second in range(3)])
    served.note(stream, "a", NOON, s0=1)
    served.note(stream, "a", NOON + 5_000, s0=3)
    words = ("audit", stream, "--path", str(path), "--field", "at")
    state = ("--state", str(tmp_path / "audit.json"))
    done = strandline(*words, *state)
    assert (done.code, done.out) == (1, "")
    assert "the times of these events look like seconds, and nothing was judged: use --unit s" in done.err
    done = strandline(*words[:-1], "time", *state)
    assert (done.code, done.out) == (1, "")
    assert "no event has a time" in done.err
    assert list(tmp_path.glob("audit.json*")) == []
    done = strandline(*words, *state, "--unit", "s")  # from where the first one began
    assert done.code == 0 and ": 3 events in " in done.out
