"""Asynchronous work on items: watermarks stay behind what is unfinished, and unfinished work is read again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reader_client import AsyncEventReader, EventItem, WatermarkItem, map_async
from reader_client.items import Item
from strandline.logs import StoredEvent


def event(number: int) -> EventItem:
    return EventItem("s", StoredEvent("0", number, None, b"%d" % number, 0), {})


async def listed(items: Sequence[Item]) -> AsyncIterator[Item]:
    for item in items:
        await asyncio.sleep(0)
        yield item


def told(output: Any) -> object:
    return f"W{output.watermark}" if isinstance(output, WatermarkItem) else output.result


@given(st.lists(st.booleans(), max_size=25), st.randoms(use_true_random=False), st.integers(1, 6), st.booleans())
def test_nothing_is_lost_and_nothing_overtakes_a_watermark(
    kinds: list[bool], random: Any, capacity: int, ordered: bool
) -> None:
    items: list[Item] = [event(n) if is_event else WatermarkItem(n) for n, is_event in enumerate(kinds)]
    under_way = [0, 0]

    async def work(item: EventItem) -> int:
        under_way[0] += 1
        under_way[1] = max(under_way)
        for _ in range(random.randrange(5)):
            await asyncio.sleep(0)
        under_way[0] -= 1
        return item.event.offset

    async def run() -> list[object]:
        mapped = map_async(listed(items), work, capacity=capacity, ordered=ordered)
        return [output async for output in mapped]

    outputs = asyncio.run(run())
    results = [told(output) for output in outputs if not isinstance(output, WatermarkItem)]
    expected = [n for n, is_event in enumerate(kinds) if is_event]
    assert sorted(results, key=str) == sorted(expected, key=str)
    assert not ordered or results == expected
    assert under_way[1] <= capacity
    done = set[object]()
    watermarks = []
    for output in outputs:
        if isinstance(output, WatermarkItem):
            watermarks.append(output.watermark)
            assert done >= {n for n in expected if n < output.watermark}
        else:
            done.add(told(output))
    assert watermarks == sorted(set(watermarks))
    last = max((n for n, is_event in enumerate(kinds) if not is_event), default=None)
    assert last is None or watermarks[-1] == last


def test_what_the_work_raises_ends_the_mapping_and_cancels_the_rest() -> None:
    cancelled = []

    async def work(item: EventItem) -> int:
        if item.event.offset == 2:
            raise RuntimeError("no")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(item.event.offset)
            raise
        return 0

    async def run() -> None:
        async for _ in map_async(listed([event(1), event(2)]), work):
            pass

    with pytest.raises(RuntimeError, match="no"):
        asyncio.run(run())
    assert 1 in cancelled


def test_work_that_was_under_way_is_read_again(written: Any) -> None:
    written = written(1)
    written.write(("0", 1), ("0", 2), ("0", 3))
    written.note(10)
    group, logs = written.group(), {written.stream: written.open()}

    async def run(name: str, stuck: int) -> list[object]:
        """Reads until only the stuck event is left, and then goes."""
        url, options = written.controller.url, {"report_ms": 5, "time_domain": "event", "acknowledge": True}
        outputs: list[object] = []

        async def work(item: EventItem) -> int:
            number = int(item.event.value or b"")
            if number == stuck:
                await asyncio.Event().wait()
            return number

        async with AsyncEventReader(url, group, name, logs, **options) as reader:  # type: ignore[arg-type]  # mixed values
            mapped = map_async(reader, work, ordered=False, acknowledge=reader)
            async for output in mapped:
                outputs.append(told(output))
                if output == WatermarkItem(10) or (stuck and len(outputs) == 2):
                    break
            await mapped.aclose()  # type: ignore[attr-defined]  # a generator
        return outputs

    assert asyncio.run(run("r1", stuck=2)) == [1, 3]  # and no watermark
    assert asyncio.run(run("r2", stuck=0)) == [2, 3, "W10"]
