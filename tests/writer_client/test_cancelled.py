"""A write that was interrupted may have been appended, or not: the clock is held back until the application knows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from strandline.errors import OutcomeUnknown
from strandline.logs import Position
from strandline.logs.sqlite import SqliteLog
from tests.writer_client.clocks import SOON, Clock, mark_after
from tests.writer_client.conftest import BlockedLog, LateLog
from writer_client import AsyncWriter, AutomaticTime, Event

EVENT = [Event(b"a", segment="0")]


class InterruptedLog(LateLog):
    """Appends, and Ctrl-C comes just then."""

    def append(self, events: Iterable[Event]) -> Position:
        super().append(events)
        if not self.was:
            self.was = True
            raise KeyboardInterrupt
        return self.positions()

    was = False


@pytest.mark.parametrize("make_any", ["background", "waiting"], indirect=True)
def test_an_interrupted_write_holds_the_clock_back(controller: Any, make_any: Any, wire: Any) -> None:
    stream, clock = controller.stream(), Clock(1_000)
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, clock=clock)
    with make_any(stream, log=InterruptedLog(wire), wire=wire, automatically_note_time=automatic) as writer:
        mark_after(controller, stream, 0)
        with pytest.raises(KeyboardInterrupt):
            writer.write(EVENT)
        clock.now = 2_000
        assert writer.status().failed_write
        with pytest.raises(OutcomeUnknown, match="interrupted"):
            writer.idle()
        assert controller.marks(stream)[-1].time == 1_000
        writer.resume()
        assert mark_after(controller, stream, 1_000).cut == {"0": 1}


def test_a_cancelled_write_holds_the_clock_back(controller: Any, wire: Any) -> None:
    stream, clock, log = controller.stream(), Clock(1_000), BlockedLog(wire)
    automatic = AutomaticTime(period_ms=SOON, lag_ms=0, clock=clock)

    async def cancel() -> None:
        async with AsyncWriter(controller.url, stream, "w1", log=log, automatically_note_time=automatic) as writer:
            await asyncio.to_thread(mark_after, controller, stream, 0)
            write = asyncio.create_task(writer.write(EVENT))
            await asyncio.to_thread(log.appends.wait, 30)
            write.cancel()
            with pytest.raises(asyncio.CancelledError):
                await write
            clock.now = 2_000
            assert writer.status().failed_write
            with pytest.raises(OutcomeUnknown):
                await asyncio.gather(writer.idle(), asyncio.to_thread(log.lets.set))
            assert controller.marks(stream)[-1].time == 1_000
            await writer.write(EVENT)
            writer.resume()
            assert (await asyncio.to_thread(mark_after, controller, stream, 1_000)).cut == {"0": 2}

    asyncio.run(cancel())


async def cancel(work: Coroutine[Any, Any, Any], begun: threading.Event) -> None:
    """Cancels work that has begun in its thread. One more thread does what comes next, in order."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    task = asyncio.create_task(work)
    await asyncio.to_thread(begun.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("call", [lambda writer: writer.note_time(1_000), AsyncWriter.idle, AsyncWriter.close])
def test_the_call_after_a_cancelled_write_notes_its_events(
    controller: Any, wire: Any, call: Callable[[AsyncWriter], Coroutine[Any, Any, Any]]
) -> None:
    log = BlockedLog(wire)

    async def run() -> None:
        async with AsyncWriter(controller.url, controller.stream(), "w1", log=log) as writer:
            await writer.note_time(100)
            await cancel(writer.write(EVENT), log.appends)
            await asyncio.gather(call(writer), asyncio.to_thread(log.lets.set))
            assert wire.happened[:3] == ["flush", "append", "flush"]

    asyncio.run(run())


def test_a_writer_is_not_released_before_its_cancelled_write_has_ended(controller: Any, wire: Any) -> None:
    log = BlockedLog(wire)

    async def run() -> None:
        writer = AsyncWriter(controller.url, controller.stream(), "w1", log=log)
        await writer.register()
        await cancel(writer.write(EVENT), log.appends)
        release = asyncio.create_task(writer.release())
        await asyncio.to_thread(str)
        assert not release.done()
        log.lets.set()
        await release
        assert log.end_offsets() == {"0": 1}

    asyncio.run(run())


class SlowLog(BlockedLog):
    """Says where it ends when a test lets it."""

    def end_offsets(self) -> Position:
        try:
            self.append([])
        finally:
            self.over = True
        return super().end_offsets()

    over = False


def test_a_cancelled_registration_does_not_hold_up_the_caller(controller: Any, wire: Any) -> None:
    log = SlowLog(wire)

    async def run() -> None:
        await cancel(AsyncWriter(controller.url, controller.stream(), "w1", log=log).__aenter__(), log.appends)
        assert not log.over
        log.lets.set()

    asyncio.run(run())


def test_a_commit_has_the_events_of_a_cancelled_write_before_it(controller: Any, tmp_path: Path) -> None:
    stream, begun, lets = controller.stream(), threading.Event(), threading.Event()

    def events() -> Iterator[Event]:
        begun.set()
        assert lets.wait(30)
        yield from EVENT

    async def run() -> None:
        with SqliteLog.create(tmp_path / "log.db", 3) as log:
            async with (
                AsyncWriter(controller.url, stream, "w1", log=log) as writer,
                await writer.begin() as transaction,
            ):
                await cancel(transaction.write(events()), begun)
                await asyncio.gather(transaction.commit(1_000), asyncio.to_thread(lets.set))
        assert controller.marks(stream)[-1].cut == {"0": 1}

    asyncio.run(run())
