"""`map_async`: passes events through a coroutine, and keeps each watermark behind the events before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar, assert_never

from reader_client.async_work import Completed, Ticket, Work
from reader_client.events import AsyncEventReader
from reader_client.items import EventItem, IdleItem, Item, WatermarkItem

WORK_CAPACITY_DEFAULT: Final = 100  # events under way at a time

Result = TypeVar("Result")
Signal = WatermarkItem | IdleItem
Output = Completed[EventItem, Result] | Signal


async def map_async(
    items: AsyncIterable[Item],
    work: Callable[[EventItem], Awaitable[Result]],
    *,
    capacity: int = WORK_CAPACITY_DEFAULT,
    ordered: bool = True,
    acknowledge: AsyncEventReader | None = None,
) -> AsyncIterator[Output[Result]]:
    """Applies `work` to each event. Yields each event with its result, and watermarks in between: a watermark follows
    as soon as no work on an earlier event is under way. So does an item about a stream that is idle, of a reader
    with `by_stream`, unless an event of that stream has come since.

        async for item in map_async(reader, fetch, capacity=16):
            ...

    - `capacity`: at most this many events are under way, or done and wait for their turn.
    - `ordered`: yields results in the order of the events, otherwise as they are done.
    - `acknowledge`: the reader, if it has `acknowledge=True`. It settles each event whose result was taken, so that
      unfinished events are read again after a crash.

    An error in `work` is raised here, and cancels the work under way.
    """
    queue: Work[EventItem, Result, Signal] = Work(capacity, ordered=ordered)
    source = aiter(items)
    reading: asyncio.Task[Item] | None = None
    working: dict[asyncio.Task[Result], Ticket] = {}
    idle: dict[str, IdleItem] = {}  # the streams that had no event since
    ended = False
    try:
        while not ended or working:
            if reading is None and not ended and not queue.full:
                reading = asyncio.ensure_future(anext(source))
            pending = {*working, *([reading] if reading is not None else [])}
            finished, _ = await asyncio.wait(pending, return_when="FIRST_COMPLETED")
            outputs: list[Output[Result]] = []
            for task in [each for each in working if each in finished]:
                outputs += queue.complete(working.pop(task), task.result())
            if reading is not None and reading in finished:
                done, reading = reading, None
                try:
                    item = done.result()
                except StopAsyncIteration:
                    ended = True
                else:
                    outputs += _begin(item, queue, work, working, idle)
            for output in outputs:
                if isinstance(output, IdleItem) and idle.get(output.stream) is not output:
                    continue
                yield output
                if acknowledge is not None and isinstance(output, Completed):
                    acknowledge.done(output.item)
    finally:
        left = [*working, *([reading] if reading is not None else [])]
        for unfinished in left:
            unfinished.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _begin(
    item: Item,
    queue: Work[EventItem, Result, Signal],
    work: Callable[[EventItem], Awaitable[Result]],
    working: dict[asyncio.Task[Result], Ticket],
    idle: dict[str, IdleItem],
) -> list[Output[Result]]:
    match item:
        case EventItem():
            idle.pop(item.stream, None)
            working[asyncio.ensure_future(work(item))] = queue.submit(item)
            return []
        case WatermarkItem():
            return queue.behind((item.stream, item.key), item)
        case IdleItem():
            idle[item.stream] = item
            return queue.behind(item.stream, item)
        case _:
            assert_never(item)
