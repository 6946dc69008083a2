"""A write that was interrupted may have been appended, or not: the clock is held back until the application knows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from strandline.errors import OutcomeUnknown
from strandline.logs import Position
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
                await writer.idle()
            assert controller.marks(stream)[-1].time == 1_000
            log.lets.set()
            await writer.write(EVENT)
            writer.resume()
            assert (await asyncio.to_thread(mark_after, controller, stream, 1_000)).cut == {"0": 2}

    asyncio.run(cancel())
