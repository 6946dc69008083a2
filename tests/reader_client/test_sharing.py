"""Readers of a group share its segments, and one that comes back goes on where it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reader_client import EventReader, ReaderClosed, ReaderGroup, ReaderState
from strandline.client import group_calls
from strandline.client.calls import Request
from strandline.client.http import Connection, HttpTransport
from strandline.client.retry import AnswerLost, Outcome
from strandline.core.segment import NewSegment
from strandline.errors import Fenced, InvalidConfig
from tests.reader_client.event_readers import QUICK, lose, next_of, reading, share, told, until

# -- sharing -----------------------------------------------------------------------------------------------------------


def test_readers_share_the_segments_evenly_also_with_one_that_comes_later(written: Any) -> None:
    written = written(4)
    group = written.group()
    with reading(written, group) as one:
        share([one], [4])
        with reading(written, group, "r2") as two:
            share([one, two], [2, 2])
        share([one], [4])  # two has left


def test_a_silent_reader_is_fenced_and_its_events_read_again(written: Any) -> None:
    written = written(1)
    written.write(("0", 1), ("0", 2), ("0", 3))
    group = written.group(reader_timeout_ms=600_000)
    with reading(written, group, report_ms=1) as hung:
        assert told(next_of(hung)) == 1
        assert told(next_of(hung)) == 2  # and the first is reported
        lose(written, group, "r1")
        with reading(written, group, "r2") as other:
            assert until(other, 3)[-2:] == [2, 3]
            other.read(50)
            assert hung.read(200) is None  # 3 lies in its buffer, but is no longer its own
            assert hung.fenced == 1
            written.write(("0", 4))
            assert until(other, 4) == [4]


def test_a_reader_lost_before_an_acquire_reads_its_segment_again(written: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written, acquire, lost = written(2), group_calls.acquire, list[str]()
    group = written.group(reader_timeout_ms=600_000)

    def after_silence(name: str, reader: str, epoch: int, most: int) -> Any:
        if not lost:
            lost.append(reader)
            lose(written, group, reader)
        return acquire(name, reader, epoch, 2)

    with reading(written, group, report_ms=1, acknowledge=True) as hung:
        with reading(written, group, "r2") as other:
            share([hung, other], [1, 1])
            written.write(("0", 1), ("1", 1), ("0", 2), ("1", 2))
            assert until(hung, 2) == [1, 2]
            hung.get_time_window()
            monkeypatch.setattr(group_calls, "acquire", after_silence)
        assert Counter(until(hung, 2) + until(hung, 2)) == {1: 2, 2: 2}
        assert (hung.fenced, len(lost)) == (1, 1)


class Disturbed(HttpTransport):
    """The first registration arrives after the repeated one, and no answer to an acquire comes back."""

    delayed: Request | None = None
    acquired = 0

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        if request.method == "PUT" and "/readers/" in request.path and self.delayed is None:
            self.delayed = request
            return AnswerLost("as the test wants it")
        outcome = super().send(request, timeout_ms)
        if request == self.delayed:  # the repeated one was answered
            super().send(self.delayed, timeout_ms)
        if not request.path.endswith("/acquire"):
            return outcome
        self.acquired += 1
        return AnswerLost("as the test wants it")


def test_a_late_registration_fences_nobody_and_a_lost_acquire_is_not_made_again_and_its_segments_are_read(
    written: Any,
) -> None:
    written = written(2)
    written.write(("0", 1), ("1", 2))
    transport = Disturbed(written.controller.url)
    logs = {written.stream: written.open()}
    with (
        Connection(written.controller.url, transport=transport) as connection,
        EventReader(connection, written.group(), "r1", logs, **QUICK) as reader,
    ):
        assert sorted(map(told, [next_of(reader), next_of(reader)]), key=str) == [1, 2]
        assert transport.acquired == 1 and transport.delayed is not None


def test_offline_takes_the_window_back_and_the_events_come_again(written_anywhere: Any) -> None:
    written = written_anywhere(1)
    written.write(("0", 1))
    written.note(10)
    written.write(("0", 11))
    written.note(20)
    name = written.group()
    with ReaderGroup(written.controller.url, name) as group, reading(written, name, time_domain="event") as reader:
        assert until(reader, "W20")[-1] == "W20"
        assert group.offline("r1", {written.stream: {"0": 1}}).watermarks == {"": 10}
        assert until(reader, 11) == [11]  # it registers again, and its own watermarks do not go back
        assert reader.fenced == 1
        assert reader.read(50) is None
        assert group.get_time_window().watermarks == {"": 20}


def test_a_second_process_of_the_same_name_ends_the_first(written: Any) -> None:
    written = written(1)
    group = written.group()
    with reading(written, group) as first, reading(written, group) as second:
        with pytest.raises(Fenced):
            next_of(first)
        assert second.read(20) is None


def test_successors_come_after_all_of_their_predecessors(written: Any) -> None:
    written = written(2)
    written.write(("0", 1), ("1", 2))
    written.note(5)
    written.scale(["0", "1"], [NewSegment("2", 0.0, 1.0)])
    written.write(("2", 6))
    written.scale(["2"], [NewSegment("3", 0.0, 0.5), NewSegment("4", 0.5, 1.0)])
    written.write(("3", 11), ("4", 12))
    written.note(20)
    with reading(written, written.group(), time_domain="event") as reader:
        items = until(reader, "W20")
    events = [item for item in items if isinstance(item, int)]
    assert (set(events[:2]), events[2], set(events[3:])) == ({1, 2}, 6, {11, 12})


def test_a_segments_end_is_reported_at_once_for_its_successors(written: Any) -> None:
    written = written(2)
    written.write(("0", 1), ("1", 2))
    written.scale(["0", "1"], [NewSegment("2", 0.0, 1.0)])
    written.write(("2", 6))
    with reading(written, written.group(), report_ms=60_000) as reader:
        assert until(reader, 6)[-1] == 6


# -- state -------------------------------------------------------------------------------------------------------------


def test_a_reader_goes_on_from_its_saved_state_with_its_bound(
    written_anywhere: Any, event_reader: Callable[..., Any]
) -> None:
    written = written_anywhere(1)
    written.write(("0", 1), ("0", 2))
    written.note(10)
    written.write(("0", 11), ("0", 12))
    written.note(20)
    group, logs = written.group(), {written.stream: written.open()}
    options = {"time_domain": "event", **QUICK}
    first = event_reader(written.controller.url, group, "r1", logs, **options)
    until(first, 2)
    state = first.save()
    assert state.positions == {written.stream: {"0": 2}}
    until(first, "W20")
    first.close()
    again = ReaderState.from_json(replace(state, watermarks={"": 10}).to_json())
    second = event_reader(written.controller.url, group, "r1", logs, state=again, **options)
    assert until(second, "W20") == [11, 12, "W20"]
    second.close()


def test_a_reader_needs_a_log_for_each_stream_and_reports_more_often_than_it_may_be_silent_until_it_is_closed(
    written: Any,
) -> None:
    written = written(1)
    group = written.group(reader_timeout_ms=200)
    with pytest.raises(InvalidConfig, match="reader_timeout_ms, 200"), reading(written, group, report_ms=200):
        pass
    with pytest.raises(InvalidConfig, match="a log for each stream"):
        EventReader(written.controller.connection, group, "r1", {}).read(0)
    with reading(written, written.group()) as reader:
        pass
    with pytest.raises(ReaderClosed):
        reader.read(0)
    reader.close()
