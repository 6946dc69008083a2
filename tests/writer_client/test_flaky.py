"""Every kind of writer behind a proxy that cuts connections, loses answers, and sends requests twice."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from strandline.client import calls
from strandline.client.http import AsyncConnection, Connection
from strandline.client.retry import Patience
from strandline.core.config import StreamConfig, TimeDomain
from strandline.errors import Fenced, PositionWentBack, TimeTooFarAhead, TimeWentBack
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from tests.flaky import FlakyProxy
from writer_client import AsyncWriter, AutomaticTime, Background, BackgroundWriter, Event, NoteRefused, Writer

pytestmark = pytest.mark.full

HARMS = 25
ROUNDS = 120
FEW = 40  # where each has several calls
SEEDS = (0, 1)
QUICK = Patience(deadline_ms=60_000, first_pause_ms=1, pause_bound_ms=20)
REFUSING = StreamConfig(mark_interval_ms=0, writer_timeout_ms=None)  # times too far ahead are refused


@pytest.fixture(params=SEEDS)
def proxy(controller: Any, request: pytest.FixtureRequest) -> Iterator[FlakyProxy]:
    with FlakyProxy(controller.url, request.param, HARMS) as proxy:
        yield proxy


@pytest.fixture
def connection(proxy: FlakyProxy) -> Iterator[Connection]:
    with Connection(proxy.url, patience=QUICK) as connection:
        yield connection


def events(chance: random.Random, time: int) -> list[Event]:
    """Some, none of them older than `time`; their values are their times."""
    times = [time + chance.randrange(5) for _ in range(chance.randrange(1, 4))]
    return [Event(json.dumps(each).encode(), key=chance.randbytes(4)) for each in times]


def untrue(controller: Any, stream: str, path: Path) -> list[str]:
    """Each mark beside the log: what is older has to lie below its cut."""
    with SqliteLogReader(path) as reader:
        stored = [
            (segment, event.offset, json.loads(event.value or b"0"))
            for segment, end in reader.end_offsets().items()
            for event in reader.rows(segment, 0, end)
        ]
    return [
        f"{segment}@{offset} is of {time}, and mark {mark.seq} of {mark.time} has {mark.cut}"
        for mark in controller.marks(stream)
        for segment, offset, time in stored
        if time < mark.time and offset >= mark.cut.get(segment, 0)
    ]


def check(controller: Any, stream: str, path: Path, last: int, writers: int = 1) -> None:
    """All has arrived: every writer closed, at the last time, below the end of the log."""
    assert controller.states(stream) == {"closed": writers}
    assert controller.marks(stream)[-1].time == last
    assert untrue(controller, stream, path) == []


def write_all(writer: Any, chance: random.Random, *, settle: Callable[[], None] = lambda: None) -> int:
    """What a program does with a writer over its life; returns the last time that it noted."""
    for time in range(10, 10 * ROUNDS, 10):
        match chance.randrange(12):
            case 0:
                settle()
                writer.idle()
                writer.write(events(chance, time))
            case 1:
                settle()
                writer.register()
            case 2:
                with writer.begin() as transaction:
                    transaction.write(events(chance, time))
                    transaction.commit(time)
            case _:
                writer.write(events(chance, time))
        writer.note_time(time + 1)
    return time + 1


@pytest.mark.parametrize("proxy", SEEDS, indirect=True)
def test_a_writer_notes_all(controller: Any, proxy: FlakyProxy, connection: Connection, tmp_path: Path) -> None:
    stream = controller.stream()
    with (
        SqliteLog.create(tmp_path / "log", 3) as log,
        Writer(connection, stream, "w", log=log, leaving="close") as writer,
    ):
        last = write_all(writer, random.Random(1))
        while proxy.done.total() < HARMS:  # how many a call meets is a matter of how its bytes come in
            last += 1
            writer.note_time(last)
    check(controller, stream, tmp_path / "log", last)


def test_async_writers_that_share_a_connection_note_all(controller: Any, proxy: FlakyProxy, tmp_path: Path) -> None:
    stream, last = controller.stream(), 10 * ROUNDS

    async def work(connection: AsyncConnection, name: str, log: SqliteLog) -> None:
        chance = random.Random(name)
        async with AsyncWriter(connection, stream, name, log=log, leaving="close") as writer:
            for time in range(10, last, 40):
                await writer.write(events(chance, time))
                await writer.note_time(time + 1)
                if chance.random() < 0.1:
                    await writer.register()
                async with await writer.begin() as transaction:
                    await transaction.write(events(chance, time + 1))
                    await transaction.commit(time + 2)
            await writer.note_time(last)

    async def work_all(logs: Sequence[SqliteLog]) -> None:
        async with AsyncConnection(proxy.url, patience=QUICK) as connection:
            await asyncio.gather(*(work(connection, f"w{number}", log) for number, log in enumerate(logs)))

    with ExitStack() as opened:
        logs = [opened.enter_context(SqliteLog.create(tmp_path / "log", 3)) for _ in range(3)]
        asyncio.run(work_all(logs))
    check(controller, stream, tmp_path / "log", last, writers=3)


def test_a_background_writer_notes_all_and_is_refused_nothing(
    controller: Any, proxy: FlakyProxy, connection: Connection, tmp_path: Path
) -> None:
    stream = controller.stream()
    reports: list[Any] = []
    with (
        SqliteLog.create(tmp_path / "log", 3) as log,
        Background(connection, patience=QUICK) as background,
        BackgroundWriter(background, stream, "w", log=log, on_report=reports.append, leaving="close") as writer,
    ):
        last = write_all(writer, random.Random(1))
        assert writer.wait_until_answered(60_000)
        assert writer.status().noted == {"": last}
        assert writer.status().refusals == 0
    assert [report for report in reports if isinstance(report, NoteRefused)] == []
    check(controller, stream, tmp_path / "log", last)


@pytest.mark.parametrize("domain", ["event", "ingestion"])
def test_a_writer_that_notes_by_the_clock_is_refused_nothing(
    controller: Any, proxy: FlakyProxy, connection: Connection, tmp_path: Path, domain: Any
) -> None:
    config = StreamConfig(mark_interval_ms=0, writer_timeout_ms=None, time_domain=TimeDomain(domain))
    stream = controller.stream(config=config)
    reports: list[Any] = []
    automatic = AutomaticTime(period_ms=5, domain=domain, lag_ms=1_000)
    with (
        SqliteLog.create(tmp_path / "log", 3) as log,
        Background(connection, patience=QUICK) as background,
        BackgroundWriter(
            background,
            stream,
            "w",
            log=log,
            on_report=reports.append,
            automatically_note_time=automatic,
            leaving="close",
        ) as writer,
    ):
        writer.register()
        while proxy.done.total() < HARMS:
            writer.write([Event(b"x", key=b"k")])
            controller.run(calls.marks(stream, after=len(controller.marks(stream)), wait_ms=100))
        assert writer.status().refusals == 0
    assert [report for report in reports if isinstance(report, NoteRefused)] == []


# -- what is really refused ------------------------------------------------------------------------------------


def test_a_writer_hears_of_what_is_really_refused(controller: Any, connection: Connection) -> None:
    stream = controller.stream(config=REFUSING)
    with Writer(connection, stream, "w") as writer:
        for time in range(10, 10 * FEW, 10):
            writer.note_time(time, {"0": time})
            for wrong, position, error in (
                (time - 5, {"0": time}, TimeWentBack),
                (time, {"0": time - 5}, PositionWentBack),
                (2**52, {"0": time}, TimeTooFarAhead),
            ):
                with pytest.raises(error):
                    writer.note_time(wrong, position)


def test_a_writer_whose_name_was_taken_hears_of_it_and_no_other(
    controller: Any, proxy: FlakyProxy, connection: Connection
) -> None:
    stream = controller.stream()
    reports: list[Any] = []
    with Background(connection, patience=QUICK) as background:
        writer = BackgroundWriter(background, stream, "w", on_report=reports.append)
        for time in range(FEW):
            writer.register()
            writer.note_time(time, {"0": time})
            assert writer.wait_until_answered(60_000)
        assert [each for each in reports if isinstance(each, NoteRefused)] == []
        controller.run(calls.register(stream, "w"))
        writer.note_time(FEW, {"0": FEW})
        assert writer.wait_until_answered(60_000)
        assert [type(each.error) for each in reports if isinstance(each, NoteRefused)] == [Fenced]
        writer.release()
