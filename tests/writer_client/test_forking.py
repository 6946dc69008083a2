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


# What a parent makes and does; what its child tries; what the parent does after that.
WRITERS = {
    "Writer": (
        "writer = Writer(url, stream, 'w1', log=log); writer.register()",
        [
            "writer.note_time(100)",
            "writer.write(EVENT)",
            "writer.begin()",
            "writer.register()",
            "writer.idle()",
            "writer.close()",
        ],
        "writer.write(EVENT); writer.note_time(100); writer.close()",
    ),
    "its transaction": (
        "writer = Writer(url, stream, 'w1', log=log); transaction = writer.begin(); transaction.write(EVENT)",
        ["transaction.commit(100)", "transaction.commit()"],
        "transaction.commit(100); writer.close()",
    ),
    "AsyncWriter": (
        """runner = asyncio.Runner()
async def begin():
    global writer
    writer = AsyncWriter(url, stream, 'w1', log=log)
    await writer.register()
runner.run(begin())""",
        ["writer.note_time(100)", "writer.write(EVENT)", "writer.begin()", "writer.idle()", "writer.close()"],
        "runner.run(writer.write(EVENT)); runner.run(writer.note_time(100)); runner.run(writer.close())",
    ),
    "BackgroundWriter": (
        "writer = BackgroundWriter(url, stream, 'w1', log=log); writer.register()",
        [
            "writer.note_time(100)",
            "writer.note_time(100, {'0': 1})",
            "writer.write(EVENT)",
            "writer.begin()",
            "writer.status()",
            "writer.wait_until_answered()",
            "writer.resume()",
            "writer.register()",
            "writer.idle()",
            "writer.close()",
        ],
        "writer.write(EVENT); writer.note_time(100); writer.close()",
    ),
    "its transaction in the background": (
        "writer = BackgroundWriter(url, stream, 'w1', log=log); transaction = writer.begin(); transaction.write(EVENT)",
        ["transaction.commit(100)"],
        "transaction.commit(100); writer.close()",
    ),
    "BackgroundWriter with others": (
        "background = Background(url); writer = BackgroundWriter(background, stream, 'w1', log=log); writer.register()",
        ["writer.note_time(100)", "BackgroundWriter(background, stream, 'w2')"],
        "writer.write(EVENT); writer.note_time(100); writer.close(); background.close()",
    ),
    "BackgroundWriter that notes by itself": (
        """now = 1
automatic = AutomaticTime(period_ms=1, clock=lambda: now, lag_ms=0)
writer = BackgroundWriter(url, stream, 'w1', log=log, automatically_note_time=automatic)
writer.register()""",
        ["writer.write(EVENT)", "writer.status()", "writer.close()"],
        "writer.write(EVENT); now = 100\nwhile writer.status().noted != {'': 100}: time.sleep(0.001)\nwriter.close()",
    ),
    "Writer that notes by itself": (
        """now = 1
automatic = AutomaticTime(period_ms=1, clock=lambda: now, lag_ms=0)
writer = Writer(url, stream, 'w1', log=log, automatically_note_time=automatic)
writer.register()""",
        ["writer.write(EVENT)", "writer.begin()", "writer.status()", "writer.resume()", "writer.close()"],
        "writer.write(EVENT); now = 100\nwhile writer.status().noted != {'': 100}: time.sleep(0.001)\nwriter.close()",
    ),
    "AsyncWriter that notes by itself": (
        """now = 1
automatic = AutomaticTime(period_ms=1, clock=lambda: now, lag_ms=0)
runner = asyncio.Runner()
async def begin():
    global writer
    writer = AsyncWriter(url, stream, 'w1', log=log, automatically_note_time=automatic)
    await writer.register()
async def end():
    global now
    await writer.write(EVENT)
    now = 100
    while writer.status().noted != {'': 100}:
        await asyncio.sleep(0.001)
    await writer.close()
runner.run(begin())""",
        ["writer.write(EVENT)", "writer.status()", "writer.close()"],
        "runner.run(end())",
    ),
    "Connection": (
        """writer = Writer(connection := Connection(url), stream, 'w1', log=log); writer.register()""",
        ["Writer(connection, stream, 'w2').register()"],
        "writer.write(EVENT); writer.note_time(100); writer.close()",
    ),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_call_of_a_writer_is_refused_in_a_forked_child(controller: Any, tmp_path: Path, kind: str) -> None:
    make, calls, afterwards = WRITERS[kind]
    stream = controller.stream()
    script = "log = SqliteLog.create(path, 3)\n" + make
    script += f"\nin_children([{', '.join(f'lambda: {call}' for call in calls)}])\n{afterwards}\n"
    children = run(script, controller.url, stream, tmp_path / "log")
    refused_in_children(children, dict.fromkeys(calls, "used_after_fork"))
    # The parent had no harm, and its child said nothing in its name.
    assert [(mark.time, sum(mark.cut.values())) for mark in controller.marks(stream)][-1:] == [(100, 1)]
    assert controller.states(stream) == {"closed": 1}


READERS = {
    "TimeWindows": (
        "windows = TimeWindows(url, stream); windows.get_time_window({})",
        ["windows.get_time_window({})", "windows.marks()", "windows.marks_at(1)", "windows.position_at(1)"],
        "assert windows.get_time_window({'0': 1}).lower == 100; windows.close()",
    ),
    "TimeWindows that follow": (
        "windows = TimeWindows(url, stream, cached=True)\nwhile not windows.following.get(''): "
        "windows.get_time_window({})",
        ["windows.get_time_window({})", "windows.get_time_window({}, 'other')", "windows.following"],
        "assert windows.get_time_window({'0': 1}).lower == 100; windows.close()",
    ),
    "AsyncTimeWindows": (
        """runner = asyncio.Runner()
async def begin():
    global windows
    windows = AsyncTimeWindows(url, stream)
    await windows.get_time_window({})
runner.run(begin())""",
        ["windows.get_time_window({})", "windows.marks()"],
        "assert runner.run(windows.get_time_window({'0': 1})).lower == 100; runner.run(windows.close())",
    ),
    "EventReader": (
        "reader = EventReader(url, group, 'r1', {stream: SqliteLogReader(path)}).__enter__()",
        ["reader.read()", "next(iter(reader))", "reader.close()"],
        "assert reader.read(60_000).event.value == b'x'; reader.close()",
    ),
    "AsyncEventReader": (
        """runner = asyncio.Runner()
async def begin():
    global reader
    reader = await AsyncEventReader(url, group, 'r1', {stream: SqliteLogReader(path)}).__aenter__()
runner.run(begin())""",
        ["reader.read()", "reader.close()"],
        "assert runner.run(reader.read(60_000)).event.value == b'x'; runner.run(reader.close())",
    ),
    "ReaderGroup": (
        "group = ReaderGroup(url, group); reader = group.register('r1')",
        ["group.get_time_window()", "group.register('r2')", "reader.report({})", "reader.acquire()"],
        "assert reader.acquire(3)",
    ),
}


@pytest.mark.parametrize("kind", READERS)
def test_every_call_of_a_reader_is_refused_in_a_forked_child(controller: Any, tmp_path: Path, kind: str) -> None:
    make, calls, afterwards = READERS[kind]
    stream = controller.stream(config=StreamConfig(mark_interval_ms=0, max_ahead_ms=None))
    group = f"of-{stream}"
    controller.run(group_calls.create_group(group, GroupSettings(streams=(stream,))))
    script = """
group = sys.argv[4]
with SqliteLog.create(path, 3) as log, Writer(url, stream, "w1", log=log) as writer:
    writer.write([Event(b"x", segment="0")])
    writer.note_time(100)
"""
    script += f"{make}\nin_children([{', '.join(f'lambda: {call}' for call in calls)}])\n{afterwards}\n"
    children = run(script, controller.url, stream, tmp_path / "log", group)
    refused_in_children(children, dict.fromkeys(calls, "used_after_fork"))


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
        log.append(EVENT * 5_000)
        transaction = log.begin()
        transaction.write(EVENT)
        half_read = reader.read("0", 0, 5_000, batch_rows=1)
        next(half_read)
        in_children([{", ".join(f"lambda: {call}" for call in EMBEDDED)}])
        transaction.commit()
        log.append(EVENT)
        assert len(list(half_read)) == 4_999
        print(json.dumps(reader.end_offsets()))
    """
    *children, ends = run(script, "-", "-", tmp_path / "log")
    refused_in_children(children, EMBEDDED)
    assert ends == {"0": 5_004}


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


def test_an_error_names_the_object_and_both_processes(controller: Any, tmp_path: Path) -> None:
    script = """
        writer = BackgroundWriter(url, stream, "w1")
        def child():
            try:
                writer.note_time(100, {"0": 1})
            except StrandlineError as error:
                assert (error.made_in, error.used_in) == (os.getppid(), os.getpid())
                print(json.dumps(error.detail), flush=True)
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
        writer.release()
    """
    stream = controller.stream()
    (told,) = run(script, controller.url, stream, tmp_path / "log")
    assert told.startswith(f"writer 'w1' of stream '{stream}' was made in process ")
    assert told.endswith("make another one in the process that uses it")


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
