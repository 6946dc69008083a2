"""`reader.windows(…)`: windows that survive a crash, in a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reader_client import AsyncEventReader, EventWindows, Sliding, Tumbling
from strandline.errors import InvalidConfig
from strandline.logs import StoredEvent
from tests.reader_client.event_readers import QUICK, lose, reading, time_of

OPTIONS: dict[str, Any] = {"time_domain": "event", "event_time": time_of, **QUICK}


def shown(window: Any) -> tuple[int, list[int]]:
    return window.start, [int(each) for each in window.events]


@pytest.fixture
def sealed(written: Any) -> Any:
    """A stream whose events lie in three windows of ten, in two segments."""
    written = written(2)
    written.write(("0", 3), ("1", 14), ("0", 12), ("1", 5), ("0", 21))
    written.note(22)
    written.seal()
    return written


def test_a_program_that_dies_within_a_window_gets_it_again_and_nothing_twice_after_it(
    sealed: Any, tmp_path: Path
) -> None:
    group, found = sealed.group(), []
    for dies in (True, True, False):
        with ExitStack() as opened:
            reader = opened.enter_context(reading(sealed, group, **OPTIONS))
            windows: Iterator[Any] = reader.windows(Tumbling(10), state=str(tmp_path / "state"))
            if dies:
                found.append(shown(next(windows)))
                opened.pop_all()  # a process that is killed closes nothing
            else:
                found += [shown(each) for each in windows]
    assert [(start, sorted(times)) for start, times in found] == [
        (0, [3, 5]), (0, [3, 5]), (0, [3, 5]), (10, [12, 14]), (20, [21]),
    ]  # fmt: skip
    with reading(sealed, group, **OPTIONS) as reader:
        assert list(reader.windows(Tumbling(10), state=tmp_path / "state")) == []


def test_open_windows_survive_a_restart_between_two_watermarks(written: Any, tmp_path: Path) -> None:
    written = written(1)
    group = written.group()
    written.write(("0", 3), ("0", 11))
    written.note(12)
    first = reading(written, group, **OPTIONS).__enter__()
    windows = first.windows(Tumbling(10), state=tmp_path / "state")
    assert shown(next(windows)) == (0, [3])
    written.write(("0", 15), ("0", 20))
    written.note(21)
    assert shown(next(windows)) == (10, [11, 15])  # asking for it said that the first is dealt with
    written.seal()
    with (
        reading(written, group, **OPTIONS) as reader,
        pytest.raises(InvalidConfig, match="time_key cannot be 'order': ''"),
    ):
        reader.windows(Tumbling(10), state=tmp_path / "state", time_key="order")
    with reading(written, group, **OPTIONS) as reader:
        found = [shown(each) for each in reader.windows(Tumbling(10), state=tmp_path / "state")]
    assert found == [(10, [11, 15]), (20, [20])]


def test_segments_that_are_lost_while_windows_are_handed_out_bring_none_again(written: Any, tmp_path: Path) -> None:
    written, found = written(1), []
    group = written.group(30_000)
    written.write(("0", 3), ("0", 14), ("0", 27), ("0", 34))
    written.note(30)
    with reading(written, group, **OPTIONS) as reader:
        for window in reader.windows(Tumbling(10), state=tmp_path / "state"):
            found.append(shown(window))
            if window.start == 0:
                lose(written, group, "r1")
                reader.get_time_window()  # its answer takes the segment away
            if window.start == 20:
                written.write(("0", 45))
                written.seal()
    assert found == [(0, [3]), (10, [14]), (20, [27]), (30, [34]), (40, [45])]


def test_windows_may_have_keys_and_other_values_and_times_of_events_and_their_own_as_datetimes(
    sealed: Any, tmp_path: Path
) -> None:
    def time_at(event: StoredEvent) -> datetime:
        return datetime.fromtimestamp(time_of(event) / 1_000, UTC)

    with reading(sealed, sealed.group(), **{**OPTIONS, "event_time": time_at}) as reader:
        windows = list(
            reader.windows(
                Sliding(20, 10),
                state=tmp_path / "state",
                key=lambda item: item.event.segment,
                value=lambda item: [item.time, "kept"],
            )
        )
    ends = {(each.start, each.key): each for each in windows}
    assert ends[0, "0"].events == ([3, "kept"], [12, "kept"])
    assert ends[0, "1"].start_at == datetime(1970, 1, 1, tzinfo=UTC)


def test_the_asyncio_reader_has_them_too(sealed: Any, tmp_path: Path) -> None:
    async def run() -> list[tuple[int, list[int]]]:
        logs = {sealed.stream: sealed.open()}
        async with AsyncEventReader(sealed.controller.url, sealed.group(), "r1", logs, **OPTIONS) as reader:
            return [shown(each) async for each in reader.windows(Tumbling(10), state=tmp_path / "state")]

    assert [start for start, _ in asyncio.run(run())] == [0, 10, 20]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"event_time": time_of}, "time_domain"),
        ({"time_domain": "event"}, "event_time"),
        ({**OPTIONS, "by_stream": True}, "by_stream"),
        ({**OPTIONS, "windows": EventWindows[int](Tumbling(10))}, r"windows\(\)"),
        ({**OPTIONS, "state": "missing/state"}, r"state cannot be '.*missing/state': a file in a folder that exists"),
        ({**OPTIONS, "state": "."}, r"state cannot be .*\(it is a folder\)"),
    ],
)
def test_a_reader_that_cannot_have_windows_says_why_before_it_reads(
    sealed: Any, tmp_path: Path, options: dict[str, Any], wrong: str
) -> None:
    options = dict(options)
    file = tmp_path / options.pop("state", "state")
    with reading(sealed, sealed.group(), **options) as reader, pytest.raises(InvalidConfig, match=wrong):
        reader.windows(Tumbling(10), state=file)


def test_an_event_without_the_time_key_is_an_error_and_comes_again(sealed: Any, tmp_path: Path) -> None:
    group, state = sealed.group(), tmp_path / "state"
    wrong = r"time_key cannot be 'order'.*/0, offset 0 has \[''\]"
    with reading(sealed, group, **OPTIONS) as reader, pytest.raises(InvalidConfig, match=wrong):
        list(reader.windows(Tumbling(10), state=state, time_key="order"))
    with reading(sealed, group, **OPTIONS) as reader:
        found = [shown(each) for each in reader.windows(Tumbling(10), state=state)]
    assert [(start, sorted(times)) for start, times in found] == [(0, [3, 5]), (10, [12, 14]), (20, [21])]


def test_windows_begin_before_anything_is_read(sealed: Any, tmp_path: Path) -> None:
    with reading(sealed, sealed.group(), **OPTIONS) as reader:
        reader.read()
        with pytest.raises(InvalidConfig, match="before anything is read"):
            next(reader.windows(Tumbling(10), state=tmp_path / "state"))
