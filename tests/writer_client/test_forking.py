"""A forked child that uses what its parent made is told so at its first call, and does its parent no harm.

Each test runs a process of its own that forks: this one has threads, and must not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from strandline.client import group_calls
from strandline.core.config import StreamConfig
from strandline.wire.groups import GroupSettings
from tests.kafka import Kafka
from tests.served import ROOT

DEADLINE_S = 60

BEGIN = """
    import asyncio, json, multiprocessing, os, sys, time
    from strandline.errors import StrandlineError
    from strandline.client.http import AsyncConnection, Connection
    from strandline.logs import Event
    from strandline.logs.sqlite import SqliteLog
    from strandline.logs.sqlite_reader import SqliteLogReader
    from reader_client import AsyncEventReader, AsyncTimeWindows, EventReader, ReaderGroup, TimeWindows
    from writer_client import AsyncWriter, AutomaticTime, Background, BackgroundWriter, Writer
    url, stream, path = sys.argv[1:4]
    EVENT = [Event(b"x", key=b"k")]

    def tried(call):
        try:
            found = call()
            if asyncio.iscoroutine(found):
                asyncio.run(found)
        except StrandlineError as error:
            if error.code == "used_after_fork":
                assert (error.made_in, error.used_in) == (os.getppid(), os.getpid())
            return error.code
        return "done"

    def in_children(calls):
        # One after the other, forked in each of the two ways.
        for how in ("fork", "multiprocessing"):
            ours, theirs = os.pipe()
            def child():
                os.write(theirs, json.dumps([tried(call) for call in calls]).encode())
            if how == "multiprocessing":
                process = multiprocessing.get_context("fork").Process(target=child)
                process.start()
                process.join()
                code = process.exitcode
            else:
                process = os.fork()
                if not process:
                    child()
                    # An event loop that is let go of takes what its parent waits for out of the epoll that they share.
                    os._exit(0) if "runner" in globals() else sys.exit()
                code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            os.close(theirs)
            told = json.loads(os.read(ours, 65536))
            print(json.dumps([how, code, *told]), flush=True)
"""

NO_WARNING = "-Wignore:This process:DeprecationWarning"  # of forking beside threads, since Python 3.12


def run(script: str, *arguments: object) -> list[Any]:
    """Runs a program to its end; what it printed, and nothing on standard error."""
    done = subprocess.run(
        [sys.executable, NO_WARNING, "-c", textwrap.dedent(BEGIN) + textwrap.dedent(script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    complains = ("%", "Kafka's client")
    said = [line for line in done.stderr.splitlines() if not line.startswith(complains)]
    assert (done.returncode, said) == (0, [])
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused_in_children(children: list[Any], wanted: dict[str, str]) -> None:
    """Each ended in order, with these answers to what it tried."""
    found = [(how, code, dict(zip(wanted, told, strict=True))) for how, code, *told in children]
    assert found == [("fork", 0, wanted), ("multiprocessing", 0, wanted)]


# What a parent makes; what its child tries; what the parent does after that. Each writer has a log of its own.
BLOCKING = [
    (
        "waiting = Writer(url, stream, 'w1', log=log('w1')); waiting.register()",
        [
            *("waiting.note_time(100)", "waiting.write(EVENT)", "waiting.begin()"),
            *("waiting.register()", "waiting.idle()", "waiting.close()"),
        ],
        "waiting.write(EVENT); waiting.note_time(100); waiting.close()",
    ),
    (
        "committing = Writer(url, stream, 'w2', log=log('w2')); begun = committing.begin(); begun.write(EVENT)",
        ["begun.commit(100)", "begun.commit()"],
        "begun.commit(100); committing.close()",
    ),
    (
        "behind = BackgroundWriter(url, stream, 'w3', log=log('w3')); behind.register()",
        [
            *("behind.note_time(100)", "behind.note_time(100, {'0': 1})", "behind.write(EVENT)", "behind.begin()"),
            *("behind.status()", "behind.wait_until_answered()", "behind.resume()", "behind.register()"),
            *("behind.idle()", "behind.close()", "says_what_to_do(behind.status)"),
        ],
        "behind.write(EVENT); behind.note_time(100); behind.close()",
    ),
    (
        "late = BackgroundWriter(url, stream, 'w4', log=log('w4')); its = late.begin(); its.write(EVENT)",
        ["its.commit(100)"],
        "its.commit(100); late.close()",
    ),
    (
        "background = Background(url); one = BackgroundWriter(background, stream, 'w5', log=log('w5')); one.register()",
        ["one.note_time(100)", "BackgroundWriter(background, stream, 'another')"],
        "one.write(EVENT); one.note_time(100); one.close(); background.close()",
    ),
    (
        "ticks = BackgroundWriter(url, stream, 'w6', log=log('w6'), automatically_note_time=CLOCK); ticks.register()",
        ["ticks.write(EVENT)", "ticks.status()", "ticks.close()"],
        "ticks.write(EVENT); now = 100; wait_for_clock(ticks); ticks.close()",
    ),
    (
        "clocked = Writer(url, stream, 'w7', log=log('w7'), automatically_note_time=CLOCK); clocked.register()",
        ["clocked.write(EVENT)", "clocked.begin()", "clocked.status()", "clocked.resume()", "clocked.close()"],
        "clocked.write(EVENT); now = 100; wait_for_clock(clocked); clocked.close()",
    ),
    (
        "connection = Connection(url); over = Writer(connection, stream, 'w8', log=log('w8')); over.register()",
        ["Writer(connection, stream, 'another').register()"],
        "over.write(EVENT); over.note_time(100); over.close()",
    ),
    (
        "windows = TimeWindows(url, read); windows.get_time_window({})",
        ["windows.get_time_window({})", "windows.marks()", "windows.marks_at(1)", "windows.position_at(1)"],
        "assert windows.get_time_window({'0': 1}).lower == 100; windows.close()",
    ),
    (
        "cached = TimeWindows(url, read, cached=True)\nwhile not cached.following.get(''): cached.get_time_window({})",
        ["cached.get_time_window({})", "cached.get_time_window({}, 'other')", "cached.following"],
        "assert cached.get_time_window({'0': 1}).lower == 100; cached.close()",
    ),
    (
        "reader = EventReader(url, group, 'r1', {read: SqliteLogReader(path)}).__enter__()",
        ["reader.read()", "next(iter(reader))", "reader.close()"],
        "assert reader.read(60_000).event.value == b'x'; reader.close()",
    ),
    (
        "readers = ReaderGroup(url, other_group); registered = readers.register('r1')",
        ["readers.get_time_window()", "readers.register('r2')", "registered.report({})", "registered.acquire()"],
        "assert registered.acquire(3)",
    ),
]
AWAITING = [
    (
        """async def begin():
    global writer, clocked, windows, reader
    writer = AsyncWriter(url, stream, 'w1', log=log('w1'))
    await writer.register()
    clocked = AsyncWriter(url, stream, 'w2', log=log('w2'), automatically_note_time=CLOCK)
    await clocked.register()
    windows = AsyncTimeWindows(url, read)
    await windows.get_time_window({})
    reader = await AsyncEventReader(url, group, 'r1', {read: SqliteLogReader(path)}).__aenter__()
async def end():
    global now
    await writer.write(EVENT)
    await writer.note_time(100)
    await writer.close()
    await clocked.write(EVENT)
    now = 100
    while clocked.status().noted != {'': 100}:
        await asyncio.sleep(0.001)
    await clocked.close()
    assert (await windows.get_time_window({'0': 1})).lower == 100
    await windows.close()
    assert (await reader.read(60_000)).event.value == b'x'
    await reader.close()
runner = asyncio.Runner()
runner.run(begin())""",
        [
            *("writer.note_time(100)", "writer.write(EVENT)", "writer.begin()", "writer.idle()", "writer.close()"),
            *("clocked.write(EVENT)", "clocked.status()", "clocked.close()"),
            *("windows.get_time_window({})", "windows.marks()", "reader.read()", "reader.close()"),
        ],
        "runner.run(end())",
    ),
]
USED = """
read, group, other_group = sys.argv[4:]
with SqliteLog.create(path, 3) as first, Writer(url, read, "w1", log=first) as writer:
    writer.write([Event(b"x", segment="0")])
    writer.note_time(100)
now = 1
CLOCK = AutomaticTime(period_ms=1, clock=lambda: now, lag_ms=0)
def log(writer):
    return SqliteLog.create(f"{path}-{writer}", 3)
def wait_for_clock(writer):
    while writer.status().noted != {'': 100}:
        time.sleep(0.001)
def says_what_to_do(call):
    try:
        call()
    except StrandlineError as error:
        assert error.detail.startswith(f"writer 'w3' of stream {stream!r} was made in process ")
        assert error.detail.endswith("make another one in the process that uses it")
        raise
"""


@pytest.mark.parametrize(("used", "writers"), [(BLOCKING, 8), (AWAITING, 2)], ids=["blocking", "awaiting"])
def test_every_call_of_what_a_parent_made_is_refused_in_a_forked_child(
    controller: Any, tmp_path: Path, used: list[tuple[str, list[str], str]], writers: int
) -> None:
    stream = controller.stream()
    read = controller.stream(config=StreamConfig(mark_interval_ms=0, max_ahead_ms=None))
    groups = [f"{name}-of-{read}" for name in ("read", "registered")]
    for group in groups:
        controller.run(group_calls.create_group(group, GroupSettings(streams=(read,))))
    calls = [call for _, tried, _ in used for call in tried]
    tries = f"in_children([{', '.join(f'lambda: {call}' for call in calls)}])"
    script = "\n".join([USED, *(make for make, _, _ in used), tries, *(afterwards for _, _, afterwards in used)])
    children = run(script, controller.url, stream, tmp_path / "log", read, *groups)
    refused_in_children(children, dict.fromkeys(calls, "used_after_fork"))
    # The parent had no harm, and its child said nothing in its name.
    assert [(mark.time, sum(mark.cut.values())) for mark in controller.marks(stream)][-1:] == [(100, 1)]
    assert controller.states(stream) == {"closed": writers}


EMBEDDED = {
    "log.append(EVENT)": "used_after_fork",
    "log.flush()": "used_after_fork",
    "log.positions()": "used_after_fork",
    "log.end_offsets()": "used_after_fork",
    "log.memo('w1')": "used_after_fork",
    "log.segments()": "used_after_fork",
    "log.seal()": "used_after_fork",
    "transaction.commit()": "used_after_fork",
    "reader.end_offsets()": "used_after_fork",
    "reader.segments()": "used_after_fork",
    "list(reader.rows('0', 0, 1))": "used_after_fork",
    "list(reader.read('0', 0, 1))": "used_after_fork",
    "next(half_read)": "used_after_fork",
    "log.close()": "done",  # it is the parent's, and stays open
    "reader.close()": "done",
    "SqliteLog(path).append(EVENT)": "done",  # a log that the child opens itself
}


def test_a_forked_child_must_open_its_own_embedded_log(tmp_path: Path) -> None:
    script = f"""
        log, reader = SqliteLog.create(path, 1), SqliteLogReader(path)
        log.append(EVENT * 1_000)
        transaction = log.begin()
        transaction.write(EVENT)
        half_read = reader.read("0", 0, 1_000, batch_rows=1)
        next(half_read)
        in_children([{", ".join(f"lambda: {call}" for call in EMBEDDED)}])
        transaction.commit()
        log.append(EVENT)
        assert len(list(half_read)) == 999
        print(json.dumps(reader.end_offsets()))
    """
    *children, ends = run(script, "-", "-", tmp_path / "log")
    refused_in_children(children, EMBEDDED)
    assert ends == {"0": 1_004}


def test_a_child_that_ends_closes_no_connection_of_its_parent(tmp_path: Path) -> None:
    """SQLite forbids a child even to close what it inherited. The parent writes and reads on after its child."""
    script = """
        import gc
        log = SqliteLog.create(path, 1)
        log.append(EVENT)
        if not (child := os.fork()):
            del log
            gc.collect()
            sys.exit()
        os.waitpid(child, 0)
        log.append(EVENT)
        with SqliteLogReader(path) as reader:
            print(json.dumps(reader.end_offsets()), flush=True)
        os._exit(0)
    """
    assert run(script, "-", "-", tmp_path / "log") == [{"0": 2}]
    script = "print(json.dumps(SqliteLogReader(path).end_offsets()))"
    assert run(script, "-", "-", tmp_path / "log") == [{"0": 2}]


def test_a_childs_own_writer_leaves_its_parents_notes_alone(controller: Any, tmp_path: Path) -> None:
    """Both end without closing: each sends its own, once."""
    stream = controller.stream()
    script = """
        SqliteLog.create(path, 3).close()
        writer = BackgroundWriter(url, stream, "parent", log=SqliteLog(path))
        writer.write(EVENT)
        child = os.fork()
        if not child:
            writer = BackgroundWriter(url, stream, "child", log=SqliteLog(path))
            writer.write(EVENT)
        else:
            os.waitpid(child, 0)
        writer.note_time(100)
    """
    assert run(script, controller.url, stream, tmp_path / "log") == []
    assert controller.states(stream) == {"active": 2}
    assert [(mark.time, sum(mark.cut.values())) for mark in controller.marks(stream)] == [(100, 2)]


KAFKA = {
    "log.append(EVENT)": "used_after_fork",
    "log.flush()": "used_after_fork",
    "log.positions()": "used_after_fork",
    "log.end_offsets()": "used_after_fork",
    "log.memo('w1')": "used_after_fork",
    "log.begin()": "used_after_fork",
    "transaction.commit()": "used_after_fork",
    "tracked.produce(path, b'x')": "used_after_fork",
    "tracked.produce_batch(path, [{'value': b'x'}])": "used_after_fork",
    "tracked.begin_transaction()": "used_after_fork",
    "tracked.commit_transaction()": "used_after_fork",
    "tracked.abort_transaction()": "used_after_fork",
    "tracked.poll(0)": "used_after_fork",
    "tracked.flush()": "used_after_fork",
    "reader.end_offsets()": "used_after_fork",
    "reader.segments()": "used_after_fork",
    "list(reader.rows('0', 0, 1))": "used_after_fork",
    "list(reader.read('0', 0, 1))": "used_after_fork",
    "log.close()": "done",
    "reader.close()": "done",
}


def test_a_log_on_kafka_is_refused_in_a_forked_child(kafka: Kafka) -> None:
    topic = "forked"
    kafka.create_topic(topic, 1)
    script = f"""
        from strandline.logs.kafka import KafkaLog
        from strandline.logs.kafka import TrackedProducer
        from strandline.logs.kafka_reader import KafkaLogReader
        log, reader = KafkaLog.connect(url, path, transactional_id=path), KafkaLogReader(url, path)
        tracked = TrackedProducer({{"bootstrap.servers": url}})
        log.append(EVENT)
        transaction = log.begin()
        transaction.write(EVENT)
        in_children([{", ".join(f"lambda: {call}" for call in KAFKA)}])
        transaction.commit()
        tracked.produce(path, b"x")
        tracked.flush()
        print(json.dumps(sum(1 for _ in reader.rows("0", 0, 2))))
        reader.close()
        log.close()
    """
    *children, rows = run(script, kafka.servers, "-", topic)
    refused_in_children(children, KAFKA)
    assert rows == 1  # the second offset has the marker of the first transaction
