"""A process that ends: what its writers had noted in the background or by the clock arrives, or standard error says
what did not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline.client.retry import CALL_DEADLINE_DEFAULT_MS
from tests.served import ROOT
from writer_client import Background, BackgroundWriter
from writer_client.process_exit import EXIT_DRAIN_MS
from writer_client.session import WriterSession

pytestmark = pytest.mark.full

SLACK_S = 30  # a busy machine

BEGIN = """
    import multiprocessing, os, signal, sys, threading, time
    from strandline.logs.sqlite import SqliteLog
    from writer_client import AutomaticTime, Background, BackgroundWriter, Event
    url, stream, path = sys.argv[1:4]
    def note(writer):
        writer.write([Event(b"x", key=b"k")])
        writer.note_time(100)
"""

# How a process ends, and what with.
ENDINGS = {
    "the last line": ("note(writer)", 0),
    "sys.exit": ("note(writer); sys.exit(3)", 3),
    "an exception": ("note(writer); raise ZeroDivisionError", 1),
    "Ctrl-C": ("note(writer); os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", -signal.SIGINT),
    "SIGTERM with a handler that exits": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(4)); note(writer); os.kill(os.getpid(), signal.SIGTERM); "
        "time.sleep(60)",
        4,
    ),
    "a thread that ends later": (
        "threading.Thread(target=lambda: (threading.main_thread().join(), note(writer))).start()",
        0,
    ),
}
WITHOUT_A_BLOCK = "writer = BackgroundWriter(url, stream, 'w1', log=SqliteLog.create(path, 3)); {ending}"
WITHIN_ITS_BLOCK = """
    with BackgroundWriter(url, stream, 'w1', log=SqliteLog.create(path, 3)) as writer:
        {ending}
"""
SHARED = """
    background = Background(url)
    writer = BackgroundWriter(background, stream, 'w1', log=SqliteLog.create(path, 3))
    {ending}
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A process that ends by itself."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(BEGIN) + textwrap.dedent(script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The same, to its end."""
    process = start(script, *arguments)
    try:
        out, errors = process.communicate(timeout=EXIT_DRAIN_MS / 1000 + SLACK_S)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def said_in(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines on standard error, without those of a writer that waits for the controller, as on a busy machine."""
    return [line for line in done.stderr.splitlines() if "waits, and tries again" not in line]


@pytest.fixture
def nobody() -> Iterator[str]:
    """Where no controller is."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


PLACES = {"alone": WITHOUT_A_BLOCK, "block": WITHIN_ITS_BLOCK, "shared": SHARED}
ALL = [(place, ending) for place in PLACES for ending in ENDINGS]


@pytest.mark.parametrize(("place", "ending"), [each for each in ALL if each != ("block", "a thread that ends later")])
def test_what_was_noted_arrives_however_the_process_ends(
    controller: Any, tmp_path: Path, place: str, ending: str
) -> None:
    stream, (code, exits_with) = controller.stream(), ENDINGS[ending]
    done = run(PLACES[place].format(ending=code), controller.url, stream, tmp_path / "log")
    assert done.returncode == exits_with, done.stderr
    assert "strandline:" not in done.stderr
    assert [(mark.time, sum(mark.cut.values())) for mark in controller.marks(stream)] == [(100, 1)]
    assert controller.states(stream) == {"active": 1}


def test_what_could_not_be_sent_is_told_with_stream_writer_and_count(nobody: str, tmp_path: Path) -> None:
    """Each way to end waits in vain for as long as it may: side by side."""
    noting = "[writer.note_time(time, {'0': time}) for time in range(100, 105)]"
    processes = {
        (place, ending): start(
            PLACES[place].format(ending=ENDINGS[ending][0].replace("note(writer)", noting)),
            nobody,
            "orders",
            tmp_path / f"{place} {ending}",
        )
        for place, ending in ALL
        if ending != "a thread that ends later" and (place, ending) != ("block", "the last line")  # that one raises
    }
    for (_place, ending), process in processes.items():
        _, said = process.communicate(timeout=EXIT_DRAIN_MS / 1000 + SLACK_S)
        assert process.returncode == ENDINGS[ending][1], said
        (told,) = [line for line in said.splitlines() if line.startswith("strandline:")]
        assert "5 notes of writer 'w1' of stream 'orders' could not be sent" in told
        assert nobody in told


def test_a_process_of_multiprocessing_sends_what_was_noted_when_its_function_returns(
    controller: Any, tmp_path: Path
) -> None:
    stream = controller.stream()
    script = """
        def work(name):
            note(BackgroundWriter(url, stream, name, log=SqliteLog(path)))
        SqliteLog.create(path, 3).close()
        context = multiprocessing.get_context("fork")
        processes = [context.Process(target=work, args=(f"w{number}",)) for number in range(3)]
        [process.start() for process in processes]
        [process.join() for process in processes]
        print([process.exitcode for process in processes])
    """
    done = run(script, controller.url, stream, tmp_path / "log")
    assert (done.stdout, done.returncode) == ("[0, 0, 0]\n", 0), done.stderr
    assert controller.states(stream) == {"active": 3}


LATE = """
    import atexit
    atexit.register(lambda: writer.note_time(200, {"0": 2}))  # runs after the package's own exit function
    writer = BackgroundWriter(url, stream, "w1")
    writer.note_time(100, {"0": 1})
"""


def test_a_note_of_an_exit_function_that_runs_last_is_sent_or_told_of(
    controller: Any, nobody: str, tmp_path: Path
) -> None:
    stream = controller.stream()
    done = run(LATE, controller.url, stream, tmp_path / "log")
    assert "strandline:" not in done.stderr
    assert controller.marks(stream)[-1].time == 200
    told = run(LATE, nobody, stream, tmp_path / "log").stderr.splitlines()
    lines = [line for line in told if line.startswith("strandline:")]
    assert ["1 note" in line or "2 notes" in line for line in lines] == [True, True]


def test_no_signal_gets_a_handler_so_sigterm_ends_a_process_at_once(nobody: str, tmp_path: Path) -> None:
    script = """
        signals = [each for each in signal.valid_signals() if each not in (signal.SIGKILL, signal.SIGSTOP)]
        before = {each: signal.getsignal(each) for each in signals}
        writer = BackgroundWriter(url, stream, "w1")
        writer.note_time(100, {"0": 1})
        assert {each: signal.getsignal(each) for each in signals} == before
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    """
    done = run(script, nobody, "orders", tmp_path / "log")
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")


def test_many_writers_are_told_of_in_few_lines(nobody: str, tmp_path: Path) -> None:
    script = """
        background = Background(url)
        writers = [BackgroundWriter(background, stream, f"w{number}") for number in range(500)]
        for writer in writers:
            writer.note_time(100, {"0": 1})
    """
    done = run(script, nobody, "orders", tmp_path / "log")
    told = [line for line in done.stderr.splitlines() if line.startswith("strandline:")]
    assert len(told) == 21
    assert told[-1] == "strandline: the same holds for 480 more writers"


def test_a_writer_that_is_looked_at_just_now_is_told_of_too(nobody: str) -> None:
    class Watched(Background):
        def _check(self, writer: WriterSession) -> None:
            found.append(writer in self._with_notes())
            super()._check(writer)
            looked.set()

    found: list[bool] = []
    looked = threading.Event()
    with Watched(nobody) as background:
        writer = BackgroundWriter(background, "orders", "w1")
        writer.note_time(100, {"0": 1})
        assert looked.wait(60)
        writer.release()
    assert found[0]


def test_notes_that_a_failed_write_holds_back_are_told_at_once(controller: Any, tmp_path: Path) -> None:
    script = """
        writer = BackgroundWriter(url, stream, "w1", log=SqliteLog.create(path, 3))
        try:
            writer.write([Event(b"x", segment="nowhere")])
        except Exception:
            pass
        writer.note_time(100)
    """
    done = run(script, controller.url, controller.stream(), tmp_path / "log")
    (told,) = done.stderr.splitlines()
    assert "1 note of writer 'w1'" in told and "a write had failed" in told and "nowhere" in told


def test_a_log_that_hangs_keeps_no_process_from_ending(controller: Any, tmp_path: Path) -> None:
    script = """
        class Hanging(SqliteLog):
            def flush(self):
                threading.Event().wait()
        writer = BackgroundWriter(url, stream, "w1", log=Hanging.create(path, 3))
        note(writer)
        while not any(thread.name.startswith("strandline-flushes") for thread in threading.enumerate()):
            time.sleep(0.001)
    """
    done = run(script, controller.url, controller.stream(), tmp_path / "log")
    (told,) = done.stderr.splitlines()
    assert "1 note of writer 'w1'" in told
    assert done.returncode == 0


@pytest.mark.parametrize("domain", ["event", "ingestion"])
def test_a_ticking_clock_does_not_delay_the_end(controller: Any, tmp_path: Path, domain: str) -> None:
    from strandline.core.config import StreamConfig, TimeDomain

    stream = controller.stream(config=StreamConfig(mark_interval_ms=0, time_domain=TimeDomain(domain)))
    script = f"""
        automatic = AutomaticTime(period_ms=1, lag_ms=0, domain={domain!r})
        writer = BackgroundWriter(url, stream, "w1", log=SqliteLog.create(path, 3), automatically_note_time=automatic)
        writer.register()
        writer.write([Event(b"x", key=b"k")])
        while not writer.status().noted:
            time.sleep(0.001)
    """
    done = run(script, controller.url, stream, tmp_path / "log")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_background_that_is_closed_before_its_writers_tells_of_their_notes(nobody: str, tmp_path: Path) -> None:
    script = """
        with Background(url) as background:
            writer = BackgroundWriter(background, stream, "w1")
            writer.note_time(100, {"0": 1})
    """
    done = run(script, nobody, "orders", tmp_path / "log")
    (told,) = done.stderr.splitlines()
    assert "1 note of writer 'w1' of stream 'orders' could not be sent" in told


def test_ctrl_c_while_closing_waits_tells_of_what_is_left(nobody: str, tmp_path: Path) -> None:
    script = """
        def interrupt():
            while not any(thread.name.startswith("strandline-calls") for thread in threading.enumerate()):
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)
        with BackgroundWriter(url, stream, "w1") as writer:
            writer.note_time(100, {"0": 1})
            threading.Thread(target=interrupt).start()
    """
    done = run(script, nobody, "orders", tmp_path / "log")
    (told,) = [line for line in done.stderr.splitlines() if line.startswith("strandline:")]
    assert "1 note of writer 'w1' of stream 'orders' could not be sent" in told
    assert done.returncode == -signal.SIGINT


# A waiting writer of which the clock's note gets no answer.
UNANSWERED = """
    import asyncio
    from strandline.client.http import Connection, HttpTransport
    from strandline.testing import Fault, Faults, FaultyTransport
    from writer_client import AsyncWriter, Writer
    faults, now, said, log = Faults(), 100, [], SqliteLog.create(path, 3)
    def clock():
        said.append(now)
        return now
    automatic = AutomaticTime(period_ms=5, lag_ms=0, clock=clock)
    def until(condition):
        while not condition():
            time.sleep(0.001)
"""
WAITING = """
    writer = Writer(
        Connection(url, transport=FaultyTransport(HttpTransport(url), faults)), stream, 'w1', log=log,
        automatically_note_time=automatic
    )
    writer.register()
    until(lambda: writer.status().noted)
    {then}
"""
AWAITING = """
    async def use():
        global now, writer
        transport = FaultyTransport(HttpTransport(url), faults)
        writer = AsyncWriter(
            Connection(url, transport=transport), stream, 'w1', log=log, automatically_note_time=automatic
        )
        await writer.register()
        faults.always(Fault.CONTROLLER_AWAY)
        now = 200
        while said.count(200) < 2 or writer.status().stuck is None:
            await asyncio.sleep(0.001)
    asyncio.run(use())
"""


def test_a_waiting_writer_keeps_no_process_from_ending(controller: Any, tmp_path: Path) -> None:
    stream = controller.stream()
    done = run(UNANSWERED + WAITING.format(then="sys.exit(3)"), controller.url, stream, tmp_path / "log")
    assert (done.returncode, done.stderr) == (3, "")
    assert controller.states(stream) == {"active": 1}


def test_what_a_waiting_writers_clock_said_is_sent_when_the_process_ends(controller: Any, tmp_path: Path) -> None:
    stream = controller.stream()
    then = (
        "faults.always(Fault.CONTROLLER_AWAY); writer.write([Event(b'x', key=b'k')]); now = 200; "
        "until(lambda: said.count(200) > 1 and writer.status().stuck); faults.always(None)"
    )
    done = run(UNANSWERED + WAITING.format(then=then), controller.url, stream, tmp_path / "log")
    assert (done.returncode, said_in(done)) == (0, [])
    assert [(mark.time, sum(mark.cut.values())) for mark in controller.marks(stream)][-1] == (200, 1)


@pytest.mark.parametrize("kind", ["waiting", "awaiting"])
def test_what_a_waiting_writers_clock_said_in_vain_is_told(controller: Any, tmp_path: Path, kind: str) -> None:
    stream = controller.stream()
    then = "faults.always(Fault.CONTROLLER_AWAY); now = 200; "
    then += "until(lambda: said.count(200) > 1 and writer.status().stuck)"
    script = UNANSWERED + (WAITING.format(then=then) if kind == "waiting" else AWAITING)
    done = run(script, controller.url, stream, tmp_path / "log")
    assert done.returncode == 0
    assert all(line.startswith("strandline:") for line in said_in(done))
    assert f"of writer 'w1' of stream {stream!r} could not be sent" in done.stderr


def test_ctrl_c_while_a_note_waits_ends_the_process_at_once(controller: Any, tmp_path: Path) -> None:
    """Its caller knows that the note had no answer: nothing is sent, waited for or told any more."""
    script = """
    with Writer(Connection(url, transport=FaultyTransport(HttpTransport(url), faults)), stream, 'w1') as writer:
        faults.always(Fault.CONTROLLER_AWAY)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        try:
            writer.note_time(100, {'0': 1})
        finally:
            print(time.monotonic() - began)
    """
    done = run(UNANSWERED + script, controller.url, controller.stream(), tmp_path / "log")
    assert done.returncode == -signal.SIGINT, done.stderr
    assert "strandline:" not in done.stderr
    assert float(done.stdout) < CALL_DEADLINE_DEFAULT_MS / 1000
