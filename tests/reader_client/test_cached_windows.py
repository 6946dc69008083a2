"""Windows over cached marks: the controller's own, without a call; and never frozen, whatever fails."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reader_client import AsyncTimeWindows, TimeWindow, TimeWindows
from reader_client.jobs import Step
from reader_client.mark_cache import MarkCache
from reader_client.mark_follower import Follower
from strandline.client import calls
from strandline.client.calls import Request
from strandline.client.http import Connection, HttpTransport
from strandline.client.loop import Remote
from strandline.client.retry import NotReached, Outcome, Patience, Pause
from strandline.core.config import TimeDomain
from strandline.core.segment import NewSegment
from strandline.errors import ControllerAway
from tests.served import AT_ONCE

MARKS = [(100, {"0": 5, "1": 5}), (200, {"0": 10, "1": 5}), (300, {"0": 10, "1": 20})]


@pytest.fixture
def stream(controller: Any) -> str:
    """Marks at 100 (0:5 1:5), 200 (0:10 1:5) and 300 (0:10 1:20)."""
    name: str = controller.stream()
    for at, position in MARKS:
        controller.note(name, at, position)
    return name


@dataclass
class Counting:
    """httpx to the controller; counts the calls by their last word, and is away when told to be."""

    inner: HttpTransport
    away: bool = False
    made: list[str] = field(default_factory=list)

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        self.made.append(request.name.rpartition("/")[2])
        return NotReached("as the test wants it") if self.away else self.inner.send(request, timeout_ms)

    def close(self) -> None:
        self.inner.close()


@pytest.fixture
def counting(controller: Any) -> Iterator[tuple[Counting, Connection]]:
    transport = Counting(HttpTransport(controller.url))
    patience = Patience(attempts=2, first_pause_ms=1, pause_bound_ms=2)
    with Connection(controller.url, transport=transport, patience=patience) as connection:
        yield transport, connection


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def following(windows: TimeWindows, mark_seq: int | None = 3, key: str = "") -> None:
    """Waits until the cached marks have come so far."""
    windows.get_time_window({}, key)
    until(lambda: windows.following[key].mark_seq == mark_seq and windows.following[key].caught_up)


def test_cached_windows_take_no_call(counting: tuple[Counting, Connection], stream: str) -> None:
    transport, connection = counting
    with TimeWindows(connection, stream, cached=True) as windows:
        following(windows)
        asked = transport.made.count("time-window")
        assert windows.get_time_window({"0": 7, "1": 6}) == TimeWindow(100, 300, True, False, 1)
        assert windows.get_time_window({"0": 10, "1": 20}) == TimeWindow(300, None, True, False, 3)
        assert transport.made.count("time-window") == asked


@pytest.fixture(scope="module")
def long_stream(controller: Any) -> str:
    """40 marks over segments that split and merge."""
    name: str = controller.stream()
    at = itertools.count(10, 10)
    for n in range(1, 11):
        controller.note(name, next(at), {"0": n, "1": 2 * n})
    halves = [NewSegment("2", 0.0, 0.25), NewSegment("3", 0.25, 0.5)]
    controller.run(calls.scale(name, {"0": 12}, halves))
    for n in range(1, 11):
        controller.note(name, next(at), {"1": 20 + n, "2": n, "3": n // 2})
    controller.run(calls.scale(name, {"2": 10, "3": 6}, [NewSegment("4", 0.0, 0.5)]))
    for n in range(1, 11):
        controller.note(name, next(at), {"1": 30 + n, "4": 3 * n})
    return name


def test_a_follower_that_got_more_than_a_client_takes_asks_for_less(controller: Any, long_stream: str) -> None:
    transport = HttpTransport(controller.url, answer_bytes=3_000)  # all marks at once are larger
    with (
        Connection(controller.url, transport=transport) as connection,
        TimeWindows(connection, long_stream, cached=True) as windows,
    ):
        following(windows, 30)


@pytest.fixture(scope="module")
def both(controller: Any, long_stream: str) -> Iterator[tuple[TimeWindows, TimeWindows]]:
    with (
        TimeWindows(controller.url, long_stream, cached=True) as cached,
        TimeWindows(controller.url, long_stream, cached=True, keep_marks=7) as few,
    ):
        following(cached, 30)
        following(few, 30)
        yield cached, few


POSITIONS = st.one_of(
    st.fixed_dictionaries({"0": st.integers(0, 12), "1": st.integers(0, 45)}),
    st.fixed_dictionaries({"2": st.integers(0, 10), "3": st.integers(0, 6), "1": st.integers(0, 45)}),
    st.fixed_dictionaries({"4": st.integers(0, 35), "1": st.integers(0, 45)}),
    st.dictionaries(st.sampled_from("01"), st.integers(0, 12)),
)


@given(POSITIONS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cached_windows_are_the_controllers(
    controller: Any, both: tuple[TimeWindows, TimeWindows], long_stream: str, position: dict[str, int]
) -> None:
    theirs = controller.run(calls.time_window(long_stream, position))
    for windows in both:
        assert windows.get_time_window(position) == theirs


def test_cached_windows_have_keys_and_ask_for_a_new_successor_and_end_with_the_stream(
    controller: Any, stream: str
) -> None:
    controller.note(stream, 77, {"0": 10, "1": 20}, key="ship_time")
    with TimeWindows(controller.url, stream, cached=True) as windows:
        following(windows)
        following(windows, 1, key="ship_time")
        assert windows.get_time_window({"0": 10, "1": 20}, "ship_time").lower == 77
        assert windows.get_time_window({"0": 10, "1": 20}).lower == 300
        controller.run(calls.scale(stream, {"0": 10, "1": 20}, [NewSegment("2", 0.0, 1.0)]))
        assert windows.get_time_window({"2": 3}).lower == 300  # by a call: the cache has not heard of it
        controller.note(stream, 500, {"2": 3})
        until(lambda: windows.get_time_window({"2": 3}).lower == 500)
        controller.run(calls.seal(stream, {"2": 5}))
        until(lambda: windows.following[""].over)
        assert windows.get_time_window({"2": 5}).end_of_stream
        assert not windows.get_time_window({"2": 4}).end_of_stream


def test_a_stale_cache_calls_and_raises_what_is_wrong(counting: tuple[Counting, Connection], stream: str) -> None:
    transport, connection = counting
    with TimeWindows(connection, stream, cached=True, stale_after_ms=1) as windows:
        following(windows)
        transport.away = True
        until(lambda: (windows.following[""].answered_ms_ago or 0) > 1)
        with pytest.raises(ControllerAway):
            windows.get_time_window({"0": 10, "1": 20})


def test_time_goes_on_over_a_stream_at_rest_in_the_cache_too(controller: Any) -> None:
    config = replace(AT_ONCE, time_domain=TimeDomain.INGESTION, idle_lag_ms=0)
    stream = controller.stream(1, config)
    clock = controller.run(calls.clocked(calls.describe(stream))).clock
    controller.run(calls.tail(stream, "tail", clock, {"0": 5}))
    with TimeWindows(controller.url, stream, cached=True) as windows:
        following(windows, 1)
        assert windows.get_time_window({"0": 5}).lower == clock
        controller.run(calls.idle(stream, "tail"))
        lowers = {windows.get_time_window({"0": 5}).lower}

        def has_moved() -> bool:
            lowers.add(windows.get_time_window({"0": 5}).lower)
            return len(lowers) >= 4

        until(has_moved)
        assert windows.get_time_window({"0": 4}).lower is None


# -- a page of marks that was under way while a call told more ---------------------------------------------------------

BOUND_S = 20
HEAD = {"0": 20, "1": 30}


class Holding:
    """httpx to the controller; the answer of each page for the cache comes only when the test lets it."""

    def __init__(self, url: str) -> None:
        self.answered = threading.Semaphore(0)  # by the controller
        self.let = threading.Semaphore(0)
        self.windows = 0
        self._inner = HttpTransport(url)

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        outcome = self._inner.send(request, timeout_ms)
        self.windows += request.name.endswith("/time-window")
        if "limit=" in request.path:  # those of the follower
            self.answered.release()
            assert self.let.acquire(timeout=BOUND_S)
        return outcome

    def close(self) -> None:
        self._inner.close()


def test_a_page_that_was_under_way_takes_no_window_back(controller: Any, stream: str) -> None:
    """Not the lower, and not the upper of a position that only a later mark covers."""
    held = Holding(controller.url)
    with (
        Connection(controller.url, transport=held) as connection,
        TimeWindows(connection, stream, cached=True) as windows,
    ):
        windows.get_time_window({})
        assert held.answered.acquire(timeout=BOUND_S)  # a page that ends with the mark at 300
        for at in (400, 500):
            controller.note(stream, at, {"0": at // 20 - 5, "1": at // 10 - 20})
        told = [windows.get_time_window(position) for position in ({"0": 16, "1": 21}, HEAD)]
        assert told == [TimeWindow(400, 500, True, False, 4), TimeWindow(500, None, True, False, 5)]
        held.let.release()
        assert held.answered.acquire(timeout=BOUND_S)  # the next page: the first one is in the cache
        assert windows.following[""].mark_seq == 3
        assert [windows.get_time_window(position) for position in ({"0": 16, "1": 21}, HEAD)] == told
        held.let.release()
        controller.note(stream, 600, {"0": 25, "1": 40})
        assert held.answered.acquire(timeout=BOUND_S)
        asked = held.windows
        assert windows.get_time_window(HEAD) == told[1]  # from the cache, as of the mark that told it
        assert held.windows == asked
        held.let.release(2)


@pytest.mark.parametrize("ask", [lambda windows: windows.marks(), lambda windows: windows.marks_at(500)])
def test_marks_that_a_call_told_are_not_taken_back_by_a_window(
    controller: Any, stream: str, ask: Callable[[TimeWindows], object]
) -> None:
    held = Holding(controller.url)
    with (
        Connection(controller.url, transport=held) as connection,
        TimeWindows(connection, stream, cached=True) as windows,
    ):
        windows.get_time_window({})
        assert held.answered.acquire(timeout=BOUND_S)
        controller.note(stream, 500, HEAD)
        ask(windows)
        held.let.release()
        assert held.answered.acquire(timeout=BOUND_S)
        assert windows.following[""].mark_seq == 3
        assert windows.get_time_window(HEAD).lower == 500
        held.let.release()


# -- step by step, with a clock and answers of the test ----------------------------------------------------------------


class ByHand:
    """A follower whose every step the test makes."""

    def __init__(self, connection: Connection, stream: str) -> None:
        self.now = 0.0
        self.follower = Follower(stream, "", MarkCache(""), lambda: self.now, 1_000)
        self._connection, self._job = connection, self.follower.job()
        self.step: Step = next(self._job)

    def go(self) -> None:
        """Does what it waits for; a pause is over at once."""
        answer = self._connection.run(self.step.call) if isinstance(self.step, Remote) else None
        self.step = self._job.send(answer)

    def fail(self, error: Exception) -> None:
        self.step = self._job.throw(error)


def test_any_failed_fetch_is_shown_and_retried_after_growing_pauses(controller: Any, stream: str) -> None:
    hand = ByHand(controller.connection, stream)
    pauses = []
    for count in range(1, 9):
        error = RuntimeError(f"number {count}")
        hand.fail(error)
        assert (hand.follower.status.failures, hand.follower.status.last_error) == (count, error)
        assert isinstance(hand.step, Pause)
        pauses.append(hand.step.pause_ms)
        hand.go()
        assert isinstance(hand.step, Remote)
    assert pauses == [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]
    hand.go()
    hand.go()
    assert hand.follower.status.failures == 0
    assert hand.follower.window({"0": 10, "1": 20}) == TimeWindow(300, None, True, False, 3)


def test_marks_that_are_older_than_allowed_tell_no_window(controller: Any, stream: str) -> None:
    hand = ByHand(controller.connection, stream)
    hand.go()
    hand.go()
    assert isinstance(hand.step, Remote)
    assert next(hand.step.call).wait_ms == 500  # it asks twice as often as it must have heard
    hand.now = 1_000.0
    assert hand.follower.window({"0": 10, "1": 20}) is not None
    hand.now = 1_000.5
    assert hand.follower.window({"0": 10, "1": 20}) is None
    assert hand.follower.status.answered_ms_ago == 1_000.5


class Looking(threading.Thread):
    """Asks for a window as soon as a follower shows a mark; `window` is what it got."""

    def __init__(self, follower: Follower) -> None:
        super().__init__(daemon=True)
        self.window: TimeWindow | None = None
        self.looks = threading.Event()
        self._follower = follower
        self.start()

    def run(self) -> None:
        while self._follower.status.mark_seq is None:
            self.looks.set()
        self.window = self._follower.window({"0": 10, "1": 20})


def test_marks_that_have_just_come_tell_a_window_at_once(controller: Any, stream: str) -> None:
    """Two threads race in each turn. Were marks there before they count as heard, one turn in twenty would show it."""
    description = controller.connection.run(calls.describe(stream))
    page = controller.connection.run(calls.marks(stream))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(300):
            follower = Follower(stream, "", MarkCache(""), lambda: 0.0, 1_000)
            job = follower.job()
            for step in (next(job), job.send(description)):
                assert isinstance(step, Remote)
            looking = Looking(follower)
            assert looking.looks.wait(BOUND_S)
            job.send(page)
            looking.join(BOUND_S)
            assert looking.window == TimeWindow(300, None, True, False, 3)
    finally:
        sys.setswitchinterval(interval)


def test_async_windows_follow_the_stream_too(controller: Any, stream: str) -> None:
    async def run() -> None:
        async with AsyncTimeWindows(controller.url, stream, cached=True) as windows:
            deadline = time.monotonic() + 20
            while not windows.following or windows.following[""].mark_seq != 3:
                assert time.monotonic() < deadline
                await windows.get_time_window({})
            controller.note(stream, 400, {"0": 12, "1": 20})
            while (await windows.get_time_window({"0": 12, "1": 20})).lower != 400:
                assert time.monotonic() < deadline
                await asyncio.sleep(0)

    asyncio.run(run())


def test_cached_marks_of_a_stream_that_was_created_again_are_dropped(controller: Any, stream: str) -> None:
    with TimeWindows(controller.url, stream, cached=True) as windows:
        following(windows)
        controller.run(calls.delete_stream(stream))
        controller.run(calls.create_stream(stream, 2, AT_ONCE))
        for n in range(1, 6):  # more marks than before, at other positions
            controller.note(stream, 100 * n, {"0": 100 * n, "1": 100 * n})
        following(windows, 5)
        assert windows.get_time_window({"0": 10, "1": 20}).lower is None
        assert windows.get_time_window({"0": 150, "1": 150}) == TimeWindow(100, 200, True, False, 1)
