"""The log has one line for each thing that an operator asks about, with the request that caused it, and no secret."""

from __future__ import annotations

import errno
import io
import json
import logging
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.commit.health import STORE_LOG_MS, StoreHealth
from controller.commit.journal import JOURNAL_REFUSALS_BURST_ENTRIES
from controller.operator_log import REQUEST_ID, log_event
from controller.operators.log_lines import (
    FORMATS,
    LOG_BURST_LINES,
    LOG_LINES,
    LOG_REFILL_LINES_PER_S,
    RateLimits,
    fields_of,
    log_lines,
)
from controller.storage.diagnosis import Cause, StoreSilent
from tests.operations.scraping import STREAM, scrape
from tests.served import NOON, ROOT, InProcess, OwnProcess, run_command

ACTS = (
    "stream_created", "writer_registered", "stream_excluded", "stream_included", "writer_idle", "writer_closed",
    "stream_scaled", "stream_sealed", "group_created", "group_deleted", "stream_deleted",
)  # fmt: skip
DOCUMENT = (ROOT / "docs" / "logs.md").read_text()
Line = dict[str, Any]


def lines_of(text: str) -> list[Line]:
    return [json.loads(line) for line in text.splitlines()]


def told(lines: list[Line], event: str) -> list[Line]:
    return [line for line in lines if line["event"] == event]


class Written:
    """What was written in this process, once everything that waits is."""

    def __init__(self, form: str = "json", stream: TextIO | None = None) -> None:
        self.stream = stream if stream is not None else io.StringIO()
        self._writing = log_lines(form, self.stream)

    def __enter__(self) -> Written:
        self._writing.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._writing.__exit__(None, None, None)

    @property
    def text(self) -> str:
        assert isinstance(self.stream, io.StringIO)
        return self.stream.getvalue()

    @property
    def lines(self) -> list[Line]:
        return lines_of(self.text)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Line]]:
    """The log of a controller in a process of its own, through the life of a stream."""
    server = OwnProcess(tmp_path_factory.mktemp("store") / "store.db", "--log-format", "json", "--access-log")
    client, writers = server.client, "/v1/streams/s/writers"
    headers = {"X-Request-Id": "the-caller-chose-this", "Authorization": "Bearer a-secret-of-the-caller"}
    assert client.put("/v1/streams/s", json=STREAM, headers=headers).headers["x-request-id"] == "the-caller-chose-this"
    client.put(f"{writers}/w")
    for number in range(30):
        client.post("/v1/streams/s/notes", json={"writer": "w", "time": NOON + number, "position": {"0": number}})
    for _ in range(JOURNAL_REFUSALS_BURST_ENTRIES + 10):
        client.post("/v1/streams/s/notes", json={"writer": "w", "time": 1, "position": {}})
    client.post(f"{writers}/w/exclude", headers={"X-Request-Id": "why-excluded"})
    client.delete(f"{writers}/w/exclude")
    client.post(f"{writers}/w/idle")
    client.delete(f"{writers}/w")
    create = [{"id": "2", "low": 0.0, "high": 0.5}]
    client.post("/v1/streams/s/scale", json={"seal": {"0": 30}, "create": create}).raise_for_status()
    client.post("/v1/streams/s/seal", json={"final": {}}).raise_for_status()
    client.put("/v1/reader-groups/g", json={"streams": ["s"]})
    client.delete("/v1/reader-groups/g")
    client.get("/v1/streams", params={"limit": 7})
    client.delete("/v1/streams/s")
    assert server.stop() == 0
    yield lines_of(server.log)


def test_the_life_of_a_controller_is_told_in_order_and_what_somebody_did_in_one_line(served: list[Line]) -> None:
    stages = ["starting", "schema_created", "ready", "stopping", "flushed", "stopped"]

    assert [line["event"] for line in served if line["event"] in stages] == stages
    assert (served[0]["event"], served[-1]["event"]) == ("starting", "stopped")
    assert told(served, "ready")[0]["url"].startswith("http://127.0.0.1:")
    for act in ACTS:
        (line,) = told(served, act)
        assert line["request_id"] and line["level"] == "info" and re.fullmatch(r"[\d-]+T[\d:.]+Z", line["logged_at"])

    (created,), (excluded,) = told(served, "stream_created"), told(served, "stream_excluded")

    assert created["request_id"] == "the-caller-chose-this"
    assert (excluded["request_id"], excluded["stream"], excluded["writer"]) == ("why-excluded", "s", "w")


def test_refusals_and_requests_are_told_but_no_flood_no_note_no_secret_and_no_query(served: list[Line]) -> None:
    refused = told(served, "refused")

    assert 0 < len(refused) <= JOURNAL_REFUSALS_BURST_ENTRIES
    first = refused[0]
    assert (first["code"], first["stream"], first["writer"], first["time"]) == ("time_went_back", "s", "w", 1)
    assert first["request_id"] in {line["request_id"] for line in told(served, "request") if line["status"] == 409}

    requests, others = told(served, "request"), [line for line in served if line["event"] != "request"]

    assert sum(line["path"] == "/v1/streams/s/notes" for line in requests) == 30 + JOURNAL_REFUSALS_BURST_ENTRIES + 10
    assert len(others) < 20 + JOURNAL_REFUSALS_BURST_ENTRIES
    assert any((line["method"], line["path"], line["status"]) == ("GET", "/v1/streams", 200) for line in requests)

    text = json.dumps(served)

    assert "a-secret" not in text and "Bearer" not in text and "limit=7" not in text


def test_all_lines_are_written_where_a_call_of_the_store_hangs_at_the_end() -> None:
    program = """
import threading, time
from controller.operator_log import log_event
from controller.server import logged

with logged("text"):
    threading.Thread(target=time.sleep, args=(300,), name="store-writer").start()
    for number in range(400):
        log_event("stopping", number=number)
    raise SystemExit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, len(done.stderr.splitlines())) == (0, 400), done.stderr


def test_a_server_that_is_away_is_named_without_the_password_of_its_database() -> None:
    url = "postgresql://someone:hidden-word@127.0.0.1:1/nowhere"
    done = run_command("serve", "--database", url, "--port", "0")

    assert done.returncode == 1 and "starting store=postgresql://someone:…@127.0.0.1:1/nowhere" in done.stderr
    assert "cannot be opened" in done.stderr and "Traceback" not in done.stderr
    assert "hidden-word" not in done.stderr + done.stdout


def test_held_time_is_logged_during_and_after_it(controller: InProcess) -> None:
    with Written() as log:
        controller.call("PUT", "/v1/streams/s", {**STREAM, "writer_timeout_ms": 30_000})
        for writer in ("fast", "slow"):
            controller.note(writer, NOON, {})
        for step in range(1, 4):
            controller.note("fast", NOON + step, {})
            controller.pass_time(6_000)
        for _ in range(3):
            controller.note("fast", NOON + 10, {})
            controller.pass_time(6_000)

    (held,), (timed_out,) = told(log.lines, "time_held"), told(log.lines, "time_released")
    assert (held["writer"], held["stream"], held["held_ms"], held["released_in_ms"]) == ("slow", "s", 24_000, 6_000)
    assert (timed_out["writer"], timed_out["to"] - timed_out["from"]) == ("slow", 30_000)
    (silent,), (incomplete,) = told(log.lines, "writer_timed_out"), told(log.lines, "marks_incomplete")
    assert (silent["writer"], silent["level"], incomplete["excluded"]) == ("slow", "warning", ["slow"])


def test_a_failing_store_is_visible_keeps_its_counts_and_what_did_not_become_durable_is_not_told(
    controller: InProcess,
) -> None:
    def execute(statement: str) -> None:
        with sqlite3.connect(controller.database) as beside:
            beside.execute(statement)

    controller.call("PUT", "/v1/streams/s", STREAM)
    controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
    controller.note("w", NOON, {})
    controller.call("PUT", "/v1/streams/t", {**STREAM, "mark_interval_ms": None})
    controller.note("w", NOON, {}, "t")
    with Written() as log:
        execute("ALTER TABLE mark RENAME TO gone")
        note = {"writer": "w", "time": NOON + 1, "position": {}}
        controller.call("POST", "/v1/streams/s/notes", note, expect=503)
        away = scrape(controller)
        controller.call("POST", "/v1/streams/t/seal", {}, expect=503)
        execute("ALTER TABLE gone RENAME TO mark")
        controller.note("w", NOON + 1, {})
        back = scrape(controller)
        controller.call("POST", "/v1/streams/t/seal", {})

    assert away.value("store_up") == 0 and away.value("store_errors_total", operation="commit", cause="other") >= 1
    assert away.value("problems_total", code="store_unavailable") == 1
    assert back.value("store_up") == 1 and back.value("stream_notes_total", stream="s") == 2
    assert back.value("stream_marks_total", stream="s", key="") == 2
    events = [line["event"] for line in log.lines]
    assert events.count("stream_sealed") == 1
    assert events.index("store_failed") < events.index("store_recovered") < events.index("stream_sealed")
    assert "no such table" in told(log.lines, "store_failed")[0]["error"]


# -- the store ---------------------------------------------------------------------------------------------------


def test_store_trouble_is_logged_now_and_then_and_when_over_and_fills_no_log() -> None:
    now = 100.0
    health = StoreHealth(lambda: now)
    with Written() as log:
        for _ in range(30):
            health.failed("commit", OSError("full"), 2)
            now += 1
        health.committed(health.begin(), 1)
        health.committed(health.begin(), 1)

    failed, (recovered,) = told(log.lines, "store_failed"), told(log.lines, "store_recovered")
    assert len(failed) == 30_000 // STORE_LOG_MS and failed[1]["suppressed"] == 9
    assert failed[0]["error"] == "OSError: full" and failed[0]["level"] == "error"
    assert recovered["away_ms"] == 30_000
    assert health.errors["commit", Cause.OTHER] == 30 and health.up

    health = StoreHealth(lambda: now)  # of a store that fails every other commit
    with Written() as log:
        for _ in range(250):
            health.failed("commit", OSError("full"), 2)
            now += 0.1
            health.committed(health.begin(), 1)

    assert [line["event"] for line in log.lines] == ["store_failed", "store_recovered"] * 3
    assert log.lines[2]["suppressed"] == 99


@pytest.mark.parametrize(
    ("error", "cause", "has_traceback"),
    [
        (OSError(errno.ENOSPC, "full"), "full", False),
        (StoreSilent(seconds=10), "silent", False),
        (OSError(), "other", True),
    ],
)
def test_a_failure_of_the_store_is_one_line_if_its_cause_is_known(
    error: Exception, cause: str, has_traceback: bool
) -> None:
    with Written() as log:
        try:
            raise error
        except Exception as raised:
            StoreHealth().failed("commit", raised)
    (failed,) = log.lines
    assert (failed["cause"], "traceback" in failed) == (cause, has_traceback)
    assert failed["error"] == f"{type(error).__name__}: {error}"


# -- how lines look ----------------------------------------------------------------------------------------------


def test_text_is_one_line_of_names_and_values() -> None:
    with Written("text") as log:
        REQUEST_ID.set(b"r-1")
        log_event("stream_scaled", stream="s", note='two "words"', numbers={"0": 1}, absent=None)
        REQUEST_ID.set(None)
    _, text = log.text.split(" ", 1)

    assert text == 'INFO stream_scaled stream=s note="two \\"words\\"" numbers="{\\"0\\": 1}" request_id=r-1\n'


@pytest.mark.parametrize("form", FORMATS)
def test_a_line_stays_one_whatever_its_values_hold_and_what_utf_8_cannot_is_written_in_escapes(form: str) -> None:
    with Written(form) as log:
        log_event("x", name="two\nlines", long="y" * 5_000)

    assert len(log.text.splitlines()) == 1 and len(log.text) < 2_000
    record = logging.LogRecord("strandline", logging.INFO, "", 0, "x", None, None)  # not logged: pytest would keep it
    record.fields = {"name": "\ud800"}
    assert FORMATS[form]().format(record).encode("utf-8").isascii()


HOSTILE = st.text(
    st.sampled_from('a"\\ =\n\r\t\x00\x1b\x7f\x85\x9b\u00a0\u200b\u202e\u2028\ufeff\U000e0041é漢'), max_size=30
)


@given(name=HOSTILE, message=HOSTILE)
@pytest.mark.parametrize("form", FORMATS)
def test_no_callers_text_forges_a_line_or_controls_a_terminal(form: str, name: str, message: str) -> None:
    with Written(form) as log:
        log_event("x", name=name, inner={name: [message]})
        logging.getLogger("some.library").warning("%s", message)
        try:
            raise ValueError(message)
        except ValueError as error:
            log_event("failed", logging.ERROR, error=error, name=name)

    assert [each for each in log.text if not each.isprintable() and each != "\n"] == []
    beginnings = [line for line in log.text.split("\n") if line and not line.startswith("  ")]
    assert len(beginnings) == 3  # and what is not one of them stands further in
    if form == "json":
        assert log.lines[0]["name"] == name and log.lines[0]["inner"] == {name: [message]}


def test_a_real_controllers_log_has_callers_text_in_escapes_only(tmp_path: Path) -> None:
    server = OwnProcess(tmp_path / "store.db", "--access-log")
    server.client.put("/v1/streams/s", json={"segments": 1})
    for path in (
        "/v1/streams/%1b%5b2J%0aX%20INFO%20stream_deleted/notes",
        "/%9b31m%e2%80%ae",
        "/v1/streams/s/notes%0d%0a",
    ):
        server.client.post(path, json={"writer": "\x1b[2J\nINFO"}, headers={b"Origin": b"http://\x9b.example"})
        server.client.post(path, json={"writer": "\x1b[2J\nINFO"})
    server.client.post("/v1/streams/s/notes", json={"writer": "\x1b[2J\nX INFO \u202e", "time": 1, "position": {}})

    assert server.stop() == 0
    assert [each for each in server.log if not each.isprintable() and each != "\n"] == []
    assert all(re.match(r"\d{4}-\d\d-\d\dT\S+Z [A-Z]+ \w+( |$)", line) for line in server.log.splitlines())
    assert "\\u001b[2J\\nX INFO \\u202e" in server.log


def test_a_flood_of_one_event_is_dropped_counted_and_isolated() -> None:
    paces = RateLimits()

    def came(seconds: float, event: str, level: int = logging.INFO) -> Any:
        """What becomes of a record that is made then: how many it says were left out, None where it is left out too."""
        record = logging.LogRecord("strandline", level, "", 0, event, None, None)
        record.created, record.fields = seconds, {}
        return fields_of(record).get("left_out", 0) if paces.filter(record) else None

    assert [came(0, "flood") for _ in range(LOG_BURST_LINES)] == [0] * LOG_BURST_LINES
    assert [came(0, "flood") for _ in range(7)] == [None] * 7
    assert came(0, "another") == 0 and came(0, "flood", logging.ERROR) == 0
    assert came(1, "flood") == 7
    assert [came(1, "flood") for _ in range(LOG_REFILL_LINES_PER_S)].count(None) == 1


class Stuck(io.StringIO):
    """A pipe that nobody reads, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.enough = threading.Event()
        self._lines = 0

    def write(self, text: str) -> int:
        assert self.free.wait(60)
        self._lines += text.count("\n")
        if self._lines >= LOG_LINES:
            self.enough.set()
        return super().write(text)


def test_an_unread_pipe_stalls_nobody_and_dropped_lines_are_counted() -> None:
    stuck = Stuck()
    with Written(stream=stuck) as log:
        for number in range(LOG_LINES + 50):
            log_event("many", logging.ERROR, number=number)
        stuck.free.set()
        assert stuck.enough.wait(60)
        log_event("after")

    (after,) = told(log.lines, "after")
    assert LOG_LINES <= len(told(log.lines, "many")) < LOG_LINES + 50
    assert after["lines_left_out"] == LOG_LINES + 50 - len(told(log.lines, "many"))


# -- the page ----------------------------------------------------------------------------------------------------


def test_every_event_of_the_code_stands_in_the_documentation(served: list[Line]) -> None:
    documented = set(re.findall(r"^\| `(\w+)`", DOCUMENT, re.MULTILINE))
    source = "".join(file.read_text() for file in sorted(Path(ROOT / "controller").rglob("*.py")))
    in_code = set(re.findall(r'\blog_event\(\s*"([a-z]\w+)"', source))
    acts = set(re.findall(r'\bAdminAction\(\s*"(\w+)"', source))

    assert {line["event"] for line in served} <= documented
    assert in_code and in_code <= documented
    assert acts and [act for act in acts if not {f"stream_{act}", f"group_{act}"} & documented] == []
