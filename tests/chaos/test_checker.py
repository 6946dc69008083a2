"""The judge itself is tried: lawful histories pass, and each of these, which breaks one rule, is found by that rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checker import CACHE, JUDGE, RULES, judge
from tests.chaos.history import (
    Answered,
    Appended,
    Call,
    Delivered,
    Ended,
    NotSent,
    Outage,
    Outcome,
    Record,
    Said,
    Stream,
    Unknown,
    Watermark,
    Window,
    read_history,
    write_history,
)

UNCHANGED = Answered(503, None, {"code": "store_unavailable", "status": 503}, retry_after=True)
LOADING = Answered(503, None, {"code": "stream_loading", "status": 503}, retry_after=True)
LOST = Unknown("reset")


class Story:
    """A history as it is told, call by call: each takes half a second, and the clock shows its end."""

    def __init__(self, *, domain: str = "event", timeout_ms: int | None = None) -> None:
        self.now = 0.0
        self.records: list[Record] = [Stream("s", ("0", "1"), domain, timeout_ms)]
        self.call("PUT", "/v1/streams/s", {"segments": 2}, status=201)

    @property
    def clock(self) -> int:
        return 1_000 + int(self.now * 1_000)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        answer: Any = None,
        *,
        status: int = 200,
        client: str = "c",
        query: Mapping[str, str] | None = None,
        outcome: Outcome | None = None,
        clock: int | None = None,
        took_s: float = 0.5,
    ) -> None:
        began, self.now = self.now, self.now + took_s
        if outcome is None:
            outcome = Answered(status, self.clock if clock is None else clock, answer)
        elif isinstance(outcome, Answered) and outcome.clock is None:
            outcome = Answered(outcome.status, self.clock, outcome.body, outcome.retry_after)
        self.records.append(Call(client, began, self.now, method, path, dict(query or {}), body, outcome))
        self.now += 0.1

    def register(self, writer: str, epoch: int, floor: int | None = None, outcome: Outcome | None = None) -> None:
        answer = {"epoch": epoch, "floor": floor, "floors": {"": floor}}
        self.call("PUT", f"/v1/streams/s/writers/{writer}", None, answer, outcome=outcome)

    def note(
        self,
        writer: str,
        time: int,
        position: Mapping[str, int],
        *marks: Mapping[str, Any],
        epoch: int | None = None,
        late: bool = False,
        floor: int | None = None,
        **more: Any,
    ) -> None:
        body = {"writer": writer, "time": time, "position": dict(position)}
        if epoch is not None:
            body["epoch"] = epoch
        answer = {"late": late, "floor": floor, "marks": list(marks)}
        self.call("POST", "/v1/streams/s/notes", body, answer, **more)

    def mark(self, seq: int, time: int, cut: Mapping[str, int], **more: Any) -> dict[str, Any]:
        made = {"seq": seq, "key": "", "time": time, "upper": time, "cut": dict(cut), "newest": None}
        made |= {"excluded": [], "created_at": self.clock + 400, **more}
        return {"complete": not made["excluded"], **made}

    def page(self, *marks: Mapping[str, Any], after: int = 0, client: str = "r") -> None:
        query = {"after": str(after), "limit": "1000"}
        self.call("GET", "/v1/streams/s/marks", None, {"marks": list(marks)}, client=client, query=query)

    def writers(self, *entries: Mapping[str, Any], client: str = "c") -> None:
        self.call("GET", "/v1/streams/s/writers", None, {"writers": list(entries)}, client=client)

    def append(self, segment: str, offset: int, writer: str, time: int) -> None:
        self.records.append(Appended("s", segment, offset, writer, {"": time}, self.now))

    def window(self, position: Mapping[str, int], lower: int | None, upper: int | None, seq: int | None) -> None:
        answer = {"lower": lower, "upper": upper, "complete": True, "end_of_stream": False, "mark_seq": seq}
        self.call("POST", "/v1/streams/s/time-window", {"position": dict(position)}, answer, client="r")

    def member(
        self,
        reader: str,
        body: Mapping[str, Any],
        owned: Mapping[str, int],
        epoch: int,
        *,
        what: str = "",
        outcome: Outcome | None = None,
    ) -> None:
        """A call of a reader of the group g."""
        window = {"streams": {"s": {"position": {name: at for name, at in owned.items() if at}}}}
        answer = {"epoch": epoch, "owned": {"s": dict(owned)}, "window": window}
        path = f"/v1/reader-groups/g/readers/{reader}" + (f"/{what}" if what else "")
        self.call("POST" if what else "PUT", path, body, answer, client=reader, outcome=outcome)

    def group(self, timeout_ms: int = 60_000) -> None:
        self.call("PUT", "/v1/reader-groups/g", {"streams": ["s"], "reader_timeout_ms": timeout_ms}, {}, status=201)

    def end(self, *marks: Mapping[str, Any], stuck: tuple[str, ...] = ()) -> None:
        self.page(*marks, client=JUDGE)
        self.records.append(Ended(self.now, stuck))


def refused(code: str, status: int = 409, **more: Any) -> Answered:
    return Answered(status, None, {"code": code, "status": status, **more})


def entry(time: int | None, position: Mapping[str, int], state: str = "active", epoch: int = 1) -> dict[str, Any]:
    times = {} if time is None else {"": time}
    return {"writer": "a", "state": state, "times": times, "position": dict(position), "epoch": epoch}


# -- lawful histories --------------------------------------------------------------------------------------------


def a_day_like_any_other() -> Story:
    story = Story()
    story.register("a", 1)
    story.append("0", 0, "a", 40)
    first = story.mark(1, 50, {"0": 1})
    story.note("a", 50, {"0": 1}, first, epoch=1)
    story.page(first)
    story.window({"0": 1}, 50, None, 1)
    story.append("1", 0, "a", 60)
    second = story.mark(2, 70, {"0": 1, "1": 1})
    story.note("a", 70, {"0": 1, "1": 1}, second, epoch=1)
    story.writers(entry(70, {"0": 1, "1": 1}))
    story.end(first, second)
    return story


def answers_that_were_lost() -> Story:
    story = Story()
    story.register("a", 1)
    story.append("0", 0, "a", 40)
    story.note("a", 50, {"0": 1}, epoch=1, outcome=LOST)
    story.note("a", 50, {"0": 1}, epoch=1, outcome=NotSent())
    story.note("a", 50, {"0": 1}, epoch=1, outcome=UNCHANGED)
    story.note("a", 50, {"0": 1}, epoch=1, outcome=LOADING)
    mark = story.mark(1, 50, {"0": 1})
    story.note("a", 50, {"0": 1}, epoch=1)
    story.register("a", 0, outcome=LOST)
    story.note("a", 60, {"0": 1}, epoch=1, outcome=refused("fenced"))
    story.register("a", 3, 50)
    story.end(mark)
    return story


def a_batch_that_is_sent_again() -> Story:
    """Its first note makes the mark, so that the others came later; the repetition is no later than the first try."""
    story = Story()
    story.note("b", 40, {"0": 1})
    notes = [{"writer": "a", "time": time, "position": {"1": offset}} for offset, time in ((1, 45), (2, 55), (3, 65))]
    mark = story.mark(1, 40, {"0": 1, "1": 1}, upper=45)
    results = [{"late": False, "floor": None, "marks": marks} for marks in ([mark], [], [])]
    story.call("POST", "/v1/streams/s/notes", {"notes": notes}, outcome=LOST)
    second = story.mark(2, 65, {"0": 2, "1": 3}, upper=80)
    story.note("b", 80, {"0": 2}, second)
    story.call("POST", "/v1/streams/s/notes", {"notes": notes}, {"results": results})
    story.end(mark, second)
    return story


def a_registration_that_is_sent_again() -> Story:
    """Named by its writer, it keeps its epoch, although another writer got a later one in between."""
    story = Story()
    path, named = "/v1/streams/s/writers/a", {"registration": "first"}
    answer = {"epoch": 1, "floor": None, "floors": {"": None}}
    story.call("PUT", path, named, outcome=LOST)
    story.register("b", 2)
    story.call("PUT", path, named, answer)
    story.call("PUT", path, named, answer)
    story.end()
    return story


def a_readers_registration_that_is_sent_again() -> Story:
    story = Story()
    story.group()
    named = {"positions": {}, "registration": "first"}
    story.member("q", named, {}, 1, outcome=LOST)
    story.member("r", {"positions": {}}, {}, 2)
    story.member("q", named, {}, 1)
    story.end()
    return story


def a_writer_that_was_lost() -> Story:
    """Silent for six seconds with a timeout of two, it is named, comes back, and is told a floor."""
    story = Story(timeout_ms=2_000)
    story.note("a", 50, {"0": 1})
    first = story.mark(1, 50, {"0": 1, "1": 1}, upper=60)
    story.note("b", 60, {"1": 1}, first)
    story.now += 6
    second = story.mark(2, 90, {"0": 1, "1": 2}, excluded=["a"])
    story.note("b", 90, {"1": 2}, second)
    story.append("0", 1, "a", 55)
    story.note("a", 60, {"0": 2}, late=True, floor=90)
    story.end(first, second)
    return story


def a_writer_that_was_lost_over_a_short_pause() -> Story:
    """The process stood still for 1.2 seconds, which are silence like any other (decision 0050)."""
    story = Story(timeout_ms=5_000)
    story.note("a", 50, {"0": 1})
    story.records.append(Outage(story.now, story.now + 1.2, "pause"))
    story.now += 4.5
    story.note("b", 90, {"1": 2}, story.mark(1, 90, {"0": 1, "1": 2}, excluded=["a"]))
    return story


def a_writer_that_has_seen_a_segment_empty() -> Story:
    """The offset 0 means nothing: what a noted 22 for reaches into no segment where it lies below the cut."""
    story = Story()
    story.note("a", 15, {"0": 2, "1": 0})
    story.note("a", 22, {"0": 4, "1": 0})
    story.note("b", 10, {"1": 2}, story.mark(1, 10, {"0": 2, "1": 2}, upper=15))
    return story


def a_writer_that_closed_and_came_back() -> Story:
    """Its notes before it closed go into no mark any more: what it gives to the second one is its note of 45."""
    story = Story()
    story.register("a", 1)
    story.register("b", 2)
    story.note("a", 20, {"0": 1}, epoch=1)
    story.note("b", 10, {"1": 1}, story.mark(1, 10, {"0": 1, "1": 1}, upper=20), epoch=2)
    story.note("a", 30, {"0": 2}, epoch=1)
    story.call("DELETE", "/v1/streams/s/writers/a", answer={"marks": []}, query={"epoch": "1"})
    story.register("a", 3, 10)
    story.note("b", 15, {"1": 2}, epoch=2)
    story.note("a", 45, {"0": 3}, story.mark(2, 15, {"0": 3, "1": 2}, upper=45), epoch=3)
    return story


def a_note_that_is_listed_while_its_commit_fails() -> Story:
    story = Story()
    story.note("a", 50, {"0": 1})
    began = story.now
    story.note("a", 60, {"0": 2}, outcome=UNCHANGED)
    story.now = began + 0.1
    story.writers(entry(60, {"0": 2}))
    story.writers(entry(50, {"0": 1}))
    return story


def a_group_that_shares() -> Story:
    story = Story()
    story.group()
    story.member("q", {"positions": {}}, {}, 1)
    story.member("q", {"epoch": 1, "max": 2}, {"0": 0, "1": 0}, 1, what="acquire")
    story.member("q", {"epoch": 1, "positions": {"s": {"0": 3, "1": 2}}}, {"0": 3, "1": 2}, 1)
    story.member("q", {"epoch": 1, "positions": {"s": {"0": 4}}}, {"1": 2}, 1, what="release")
    story.member("r", {"positions": {}}, {}, 2)
    story.member("r", {"epoch": 2, "max": 1}, {"0": 4}, 2, what="acquire")
    return story


@pytest.mark.parametrize(
    "story",
    [
        a_day_like_any_other,
        answers_that_were_lost,
        a_batch_that_is_sent_again,
        a_registration_that_is_sent_again,
        a_readers_registration_that_is_sent_again,
        a_writer_that_was_lost,
        a_writer_that_was_lost_over_a_short_pause,
        a_writer_that_has_seen_a_segment_empty,
        a_writer_that_closed_and_came_back,
        a_note_that_is_listed_while_its_commit_fails,
        a_group_that_shares,
    ],
)
def test_a_lawful_history_breaks_no_rule(story: Callable[[], Story]) -> None:
    assert judge(story().records) == []


# -- histories that break one rule -------------------------------------------------------------------------------


def an_answer_without_a_clock(story: Story) -> None:
    story.records.append(Call("c", 1, 2, "GET", "/v1/streams/s", {}, None, Answered(200, None, {})))


def a_503_that_does_not_say_when_to_come_again(story: Story) -> None:
    story.note("a", 50, {}, outcome=Answered(503, None, {"code": "store_unavailable", "status": 503}))


def a_failure_of_the_controller(story: Story) -> None:
    story.call("GET", "/v1/streams/s", status=500, answer={"code": "internal_failure", "status": 500})


def a_clock_that_steps_back(story: Story) -> None:
    story.call("GET", "/v1/streams/s", answer={"latest_marks": {}}, clock=5_000)
    story.call("GET", "/v1/streams/s", answer={"latest_marks": {}}, clock=4_999)


def a_repeated_note_that_is_refused(story: Story) -> None:
    story.note("a", 50, {"0": 1}, outcome=LOST)
    story.note("a", 50, {"0": 1}, outcome=refused("time_went_back", key="", stored_time=50))


def a_note_that_is_fenced_by_nobody(story: Story) -> None:
    story.register("a", 1)
    story.note("a", 50, {"0": 1}, epoch=1, outcome=refused("fenced"))


def a_note_that_is_fenced_by_what_was_told_to_have_changed_nothing(story: Story) -> None:
    story.register("a", 1)
    story.register("a", 0, outcome=UNCHANGED)
    story.note("a", 50, {"0": 1}, epoch=1, outcome=refused("fenced"))


def a_mark_that_was_seen_and_is_no_seq_any_more(story: Story) -> None:
    story.call("GET", "/v1/streams/s/marks", outcome=refused("unknown_seq", 422), query={"after": "3"})


def an_epoch_that_is_given_twice(story: Story) -> None:
    story.register("a", 1)
    story.register("b", 1)


def an_old_epoch_that_is_taken(story: Story) -> None:
    story.register("a", 1)
    story.register("a", 2)
    story.note("a", 50, {"0": 1}, epoch=1)


def a_note_that_was_answered_and_is_lost(story: Story) -> None:
    story.note("a", 50, {"0": 1})
    story.note("a", 60, {"0": 1})
    story.writers(entry(50, {"0": 1}))


def a_position_that_was_answered_and_is_lost(story: Story) -> None:
    story.note("a", 50, {"0": 4})
    story.writers(entry(50, {"0": 3}))


def a_writer_that_is_lost_as_a_whole(story: Story) -> None:
    story.note("a", 50, {"0": 4})
    story.writers(client=JUDGE)


def a_note_that_changed_something_although_told_it_had_not(story: Story) -> None:
    story.note("a", 50, {"0": 1})
    story.note("a", 60, {"0": 2}, outcome=UNCHANGED)
    story.writers(entry(60, {"0": 1}))


def a_registration_below_a_mark(story: Story) -> None:
    story.note("a", 50, {"0": 1}, story.mark(1, 50, {"0": 1}))
    story.register("b", 1, 40)


def a_registration_below_its_own_note(story: Story) -> None:
    story.note("b", 30, {"1": 1})
    story.note("a", 50, {"0": 1}, story.mark(1, 30, {"0": 1, "1": 1}, upper=50))
    story.register("a", 1, 30)


def a_note_below_a_mark_that_is_not_called_late(story: Story) -> None:
    story.note("a", 50, {"0": 1}, story.mark(1, 50, {"0": 1}))
    story.note("b", 40, {"1": 1})


def a_note_that_is_called_late_for_nothing(story: Story) -> None:
    story.register("a", 1)
    story.note("a", 50, {"0": 1}, late=True, floor=60)


def a_writer_that_comes_back_and_is_told_no_floor() -> Story:
    story = Story(timeout_ms=1_000)
    story.note("a", 50, {"0": 1})
    story.now += 6
    story.note("b", 90, {"1": 2}, story.mark(1, 90, {"0": 1, "1": 2}, excluded=["a"]))
    story.note("a", 95, {"0": 2}, floor=80)
    return story


def a_stream_that_is_there_although_nothing_was_changed(story: Story) -> None:
    story.call("PUT", "/v1/streams/t", {"segments": 1}, outcome=UNCHANGED)
    story.call("GET", "/v1/streams/t", answer={"latest_marks": {}})


def a_stream_that_was_created_and_is_lost(story: Story) -> None:
    story.call("PUT", "/v1/streams/t", {"segments": 1}, status=201)
    story.call("GET", "/v1/streams/t", outcome=refused("unknown_stream", 404))


def a_mark_at_a_time_that_nobody_noted(story: Story) -> None:
    story.note("a", 50, {"0": 1}, story.mark(1, 49, {"0": 1}, upper=50))


def a_mark_of_a_note_that_had_changed_nothing(story: Story) -> None:
    story.note("a", 50, {"0": 1}, outcome=UNCHANGED)
    story.note("a", 60, {"0": 1}, outcome=LOST)
    story.page(story.mark(1, 50, {"0": 1}))


def a_cut_beyond_all_that_was_noted(story: Story) -> None:
    story.note("a", 50, {"0": 1}, story.mark(1, 50, {"0": 2}))


def a_mark_that_changes(story: Story) -> None:
    mark = story.mark(1, 50, {"0": 1})
    story.note("a", 50, {"0": 1}, mark)
    story.page({**mark, "created_at": mark["created_at"] + 1})


def a_mark_that_is_lost_in_the_end(story: Story) -> None:
    first = story.mark(1, 50, {"0": 1})
    story.note("a", 50, {"0": 1}, first)
    story.note("a", 60, {"0": 1}, story.mark(2, 60, {"0": 1}))
    story.call("GET", "/v1/streams/s", answer={"latest_marks": {"": first}}, client=JUDGE)
    story.records.append(Ended(story.now))


def a_seq_that_nobody_ever_saw(story: Story) -> None:
    story.note("a", 50, {"0": 1})
    second = story.mark(2, 50, {"0": 1})
    story.call("GET", "/v1/streams/s", answer={"latest_marks": {"": second}}, client=JUDGE)
    story.records.append(Ended(story.now))


def marks_that_do_not_rise(story: Story) -> None:
    story.note("a", 50, {"0": 1}, story.mark(1, 50, {"0": 1}))
    story.note("a", 50, {"0": 1}, story.mark(2, 50, {"0": 1}))


def a_cut_that_goes_back(story: Story) -> None:
    story.note("a", 50, {"0": 2, "1": 1}, story.mark(1, 50, {"0": 2, "1": 1}))
    story.note("a", 60, {"0": 2, "1": 2}, story.mark(2, 60, {"0": 1, "1": 2}))


def a_page_with_a_gap(story: Story) -> None:
    marks = [story.mark(seq, 50 + seq, {"0": 1}) for seq in (1, 2, 3)]
    for mark in marks:
        story.note("a", mark["time"], {"0": 1}, mark)
    story.page(marks[0], marks[2])


def a_page_without_what_others_had_seen(story: Story) -> None:
    story.note("a", 50, {"0": 1}, story.mark(1, 50, {"0": 1}))
    story.page()


def an_event_that_a_mark_misses(story: Story) -> None:
    story.append("0", 0, "a", 40)
    story.append("0", 1, "a", 45)
    story.note("a", 50, {"0": 1}, story.mark(1, 50, {"0": 1}))


def an_event_below_the_floor_that_only_a_later_mark_may_miss(story: Story) -> None:
    """It counts with the floor of 50 that its writer was told, so a mark at 60 must not miss it."""
    story.note("b", 50, {"1": 1}, story.mark(1, 50, {"1": 1}))
    story.register("a", 1, 50)
    story.append("0", 0, "a", 40)
    story.note("a", 60, {"0": 0}, late=False)
    story.note("b", 60, {"1": 1}, story.mark(2, 60, {"1": 1}))


def a_time_of_ingestion_that_overtakes_an_event() -> Story:
    story = Story(domain="ingestion")
    story.append("0", 0, "broker", 0)
    story.call("GET", "/v1/streams/s", answer={"latest_marks": {}}, clock=2_000)
    body = {"reporter": "tail", "time": 2_001, "position": {"0": 0}}
    mark = story.mark(1, 2_001, {})
    story.call("POST", "/v1/streams/s/tail", body, {"late": False, "floor": None, "marks": [mark]})
    return story


def an_upper_that_bounds_too_little(story: Story) -> None:
    """a 10@1, b 10@2, a 50@3, a 90@4, b 40@5 in one segment make the mark 40 with cut 5: a had noted 90 below it."""
    story.note("a", 10, {"0": 1})
    first = story.mark(1, 10, {"0": 2})
    story.note("b", 10, {"0": 2}, first)
    story.note("a", 50, {"0": 3})
    story.note("a", 90, {"0": 4})
    story.note("b", 40, {"0": 5}, story.mark(2, 40, {"0": 5}, upper=50))


def an_upper_below_an_earlier_note_of_the_same_batch(story: Story) -> None:
    """The second note of the batch made the mark, so the first one was carried out before it."""
    story.note("b", 40, {"0": 1})
    notes = [{"writer": "a", "time": time, "position": {"1": offset}} for offset, time in ((1, 45), (1, 55))]
    mark = story.mark(1, 40, {"0": 1, "1": 1}, upper=40)
    results = [{"late": False, "floor": None, "marks": marks} for marks in ([], [mark])]
    story.call("POST", "/v1/streams/s/notes", {"notes": notes}, {"results": results})


def an_epoch_that_another_registration_gets_as_well(story: Story) -> None:
    answer = {"epoch": 1, "floor": None, "floors": {"": None}}
    for name in ("first", "second"):
        story.call("PUT", "/v1/streams/s/writers/a", {"registration": name}, answer)


def a_repeated_note_below_a_mark_that_is_not_called_late(story: Story) -> None:
    """The mark had been seen before the note was sent for the first time."""
    mark = story.mark(1, 50, {"0": 1})
    story.note("a", 50, {"0": 1}, mark)
    story.page(mark)
    story.note("b", 30, {"1": 1}, outcome=LOST)
    story.note("b", 30, {"1": 1})


def an_upper_that_is_looser_than_it_has_to_be(story: Story) -> None:
    story.note("a", 90, {"0": 4})
    story.note("a", 95, {"0": 5})
    story.note("b", 40, {"1": 5}, story.mark(1, 40, {"0": 4, "1": 5}, upper=95))


def something_newer_than_newest(story: Story) -> None:
    story.append("0", 0, "a", 70)
    story.note("a", 50, {"0": 1}, story.mark(1, 50, {"0": 1}, newest=69))


def a_writer_that_is_named_where_nobody_can_be_lost(story: Story) -> None:
    story.note("a", 50, {"0": 1}, story.mark(1, 50, {"0": 1}, excluded=["b"]))


def a_writer_that_is_named_too_early() -> Story:
    story = Story(timeout_ms=5_000)
    story.note("a", 50, {"0": 1})
    story.now += 2
    story.note("b", 90, {"1": 2}, story.mark(1, 90, {"0": 1, "1": 2}, excluded=["a"]))
    return story


def silence_that_counts_while_nobody_served() -> Story:
    story = Story(timeout_ms=5_000)
    story.note("a", 50, {"0": 1})
    story.records.append(Outage(story.now, story.now + 4, "kill"))
    story.now += 6
    story.note("b", 90, {"1": 2}, story.mark(1, 90, {"0": 1, "1": 2}, excluded=["a"]))
    return story


def silence_that_counts_while_the_process_is_stopped() -> Story:
    story = Story(timeout_ms=5_000)
    story.note("a", 50, {"0": 1})
    story.records.append(Outage(story.now, story.now + 3.5, "pause"))
    story.now += 6
    story.note("b", 90, {"1": 2}, story.mark(1, 90, {"0": 1, "1": 2}, excluded=["a"]))
    return story


def a_controller_that_keeps_what_the_store_has_not(story: Story) -> None:
    story.note("a", 50, {"0": 1})
    story.call("POST", "/v1/streams/s/notes", {"writer": "a", "time": 60, "position": {"0": 2}}, outcome=Unknown())
    for client, time, end in ((f"{CACHE}-1", 60, 2), (JUDGE, 50, 1)):
        entry = {"writer": "a", "state": "active", "times": {"": time}, "position": {"0": end}}
        story.call("GET", "/v1/streams/s/writers", answer={"writers": [entry]}, client=client)


def two_marks(story: Story) -> None:
    story.note("a", 50, {"0": 2}, story.mark(1, 50, {"0": 2}))
    story.note("a", 60, {"0": 4}, story.mark(2, 60, {"0": 4}))


def a_lower_that_was_not_passed(story: Story) -> None:
    two_marks(story)
    story.window({"0": 3}, 60, None, 2)


def a_lower_that_is_behind_what_others_had_seen(story: Story) -> None:
    two_marks(story)
    story.window({"0": 4}, 50, None, 1)


def an_upper_of_a_window_that_is_no_marks(story: Story) -> None:
    two_marks(story)
    story.window({"0": 3}, 50, 61, 1)


def an_upper_of_a_window_that_is_left_out(story: Story) -> None:
    two_marks(story)
    story.window({"0": 3}, 50, None, 1)


def a_window_that_goes_back(story: Story) -> None:
    two_marks(story)
    for seq, lower in ((2, 60), (1, 50)):
        story.records.append(
            Window("w", story.now, story.now + 0.1, "s", "", {"0": 4}, lower, None, True, seq, cached=True)
        )
        story.now += 0.2


def a_group_that_forgets_a_report(story: Story) -> None:
    story.group()
    story.member("q", {"positions": {}}, {}, 1)
    story.member("q", {"epoch": 1, "positions": {"s": {"0": 3}}}, {"0": 3}, 1)
    window = {"streams": {"s": {"position": {"0": 2}}}}
    story.call("GET", "/v1/reader-groups/g/time-window", answer=window)


def a_group_that_takes_a_report_that_changed_nothing(story: Story) -> None:
    story.group()
    story.member("q", {"positions": {}}, {}, 1)
    story.member("q", {"epoch": 1, "positions": {"s": {"0": 3}}}, {"0": 3}, 1, outcome=UNCHANGED)
    window = {"streams": {"s": {"position": {"0": 3}}}}
    story.call("GET", "/v1/reader-groups/g/time-window", answer=window)


def a_segment_with_two_owners(story: Story) -> None:
    story.group()
    story.member("q", {"positions": {}}, {}, 1)
    story.member("q", {"epoch": 1, "max": 1}, {"0": 0}, 1, what="acquire")
    story.member("r", {"positions": {}}, {}, 2)
    story.member("r", {"epoch": 2, "max": 1}, {"0": 0}, 2, what="acquire")
    story.member("q", {"epoch": 1, "positions": {"s": {"0": 0}}}, {"0": 0}, 1)


def an_epoch_of_a_group_that_is_given_twice(story: Story) -> None:
    story.group()
    story.member("q", {"positions": {}}, {}, 1)
    story.member("r", {"positions": {}}, {}, 1)


def a_reader_that_is_refused_for_nothing(story: Story) -> None:
    story.group()
    story.member("q", {"positions": {}}, {}, 1)
    story.member("q", {"epoch": 1, "positions": {"s": {"0": 3}}}, {}, 1, outcome=refused("fenced"))


def delivered(number: int, offset: int, time: int, *, late: bool = False) -> Delivered:
    return Delivered("q", number, number, "s", "0", offset, time, "a", late)


def an_event_behind_a_watermark(story: Story) -> None:
    story.records += [Watermark("q", 1, 50), delivered(2, 0, 49)]


def watermarks_that_do_not_rise(story: Story) -> None:
    story.records += [Watermark("q", 1, 50), Watermark("q", 2, 50)]


def an_event_that_is_late_for_nothing(story: Story) -> None:
    story.records += [delivered(1, 0, 49, late=True)]


def an_event_that_no_reader_was_given(story: Story) -> None:
    story.append("0", 0, "a", 40)
    story.append("0", 1, "a", 40)
    story.group()
    story.member("q", {"positions": {}}, {}, 1)
    story.member("q", {"epoch": 1, "positions": {"s": {"0": 2}}}, {"0": 2}, 1)
    story.records += [delivered(1, 0, 40)]
    window = {"streams": {"s": {"position": {"0": 2}}}}
    story.call("GET", "/v1/reader-groups/g/time-window", answer=window, client=JUDGE)


def a_writer_that_is_told_of_a_refusal(story: Story) -> None:
    story.records.append(Said("p", "s", 1, "refused", "time_went_back", "…"))


def a_writer_that_is_fenced_by_nobody(story: Story) -> None:
    story.records.append(Said("p", "s", 1, "refused", "fenced", "…"))


def time_that_stands_still(story: Story) -> None:
    story.records.append(Ended(1, ("s had no mark",)))


def a_controller_that_does_not_come_back(story: Story) -> None:
    """What became of the marks is not known then."""
    story.note("a", 50, {"0": 1}, story.mark(1, 50, {"0": 1}))
    story.records.append(Ended(story.now, ("the controller was not ready",)))


BROKEN: list[tuple[str, Callable[..., Any]]] = [
    ("answers", an_answer_without_a_clock),
    ("answers", a_503_that_does_not_say_when_to_come_again),
    ("answers", a_failure_of_the_controller),
    ("clock", a_clock_that_steps_back),
    ("refusals", a_repeated_note_that_is_refused),
    ("refusals", a_note_that_is_fenced_by_nobody),
    ("refusals", a_note_that_is_fenced_by_what_was_told_to_have_changed_nothing),
    ("refusals", a_mark_that_was_seen_and_is_no_seq_any_more),
    ("epochs", an_epoch_that_is_given_twice),
    ("epochs", an_epoch_that_another_registration_gets_as_well),
    ("epochs", an_old_epoch_that_is_taken),
    ("durable_notes", a_note_that_was_answered_and_is_lost),
    ("durable_notes", a_position_that_was_answered_and_is_lost),
    ("durable_notes", a_writer_that_is_lost_as_a_whole),
    ("durable_notes", a_note_that_changed_something_although_told_it_had_not),
    ("floors", a_registration_below_a_mark),
    ("floors", a_registration_below_its_own_note),
    ("late_notes", a_note_below_a_mark_that_is_not_called_late),
    ("late_notes", a_repeated_note_below_a_mark_that_is_not_called_late),
    ("late_notes", a_note_that_is_called_late_for_nothing),
    ("late_notes", a_writer_that_comes_back_and_is_told_no_floor),
    ("nothing_changed", a_stream_that_is_there_although_nothing_was_changed),
    ("nothing_changed", a_stream_that_was_created_and_is_lost),
    ("origin_of_marks", a_mark_at_a_time_that_nobody_noted),
    ("origin_of_marks", a_mark_of_a_note_that_had_changed_nothing),
    ("origin_of_marks", a_cut_beyond_all_that_was_noted),
    ("marks_agree", a_mark_that_changes),
    ("marks_agree", a_mark_that_is_lost_in_the_end),
    ("marks_agree", a_seq_that_nobody_ever_saw),
    ("marks_agree", marks_that_do_not_rise),
    ("marks_agree", a_cut_that_goes_back),
    ("pages", a_page_with_a_gap),
    ("pages", a_page_without_what_others_had_seen),
    ("truth_of_marks", an_event_that_a_mark_misses),
    ("truth_of_marks", an_event_below_the_floor_that_only_a_later_mark_may_miss),
    ("truth_of_ingestion", a_time_of_ingestion_that_overtakes_an_event),
    ("upper", an_upper_that_bounds_too_little),
    ("upper", an_upper_below_an_earlier_note_of_the_same_batch),
    ("upper", an_upper_that_is_looser_than_it_has_to_be),
    ("newest", something_newer_than_newest),
    ("excluded", a_writer_that_is_named_where_nobody_can_be_lost),
    ("excluded", a_writer_that_is_named_too_early),
    ("excluded", silence_that_counts_while_nobody_served),
    ("excluded", silence_that_counts_while_the_process_is_stopped),
    ("windows", a_lower_that_was_not_passed),
    ("windows", a_lower_that_is_behind_what_others_had_seen),
    ("windows", an_upper_of_a_window_that_is_no_marks),
    ("windows", an_upper_of_a_window_that_is_left_out),
    ("windows_never_back", a_window_that_goes_back),
    ("group_positions", a_group_that_forgets_a_report),
    ("group_positions", a_group_that_takes_a_report_that_changed_nothing),
    ("group_owners", a_segment_with_two_owners),
    ("group_owners", an_epoch_of_a_group_that_is_given_twice),
    ("group_refusals", a_reader_that_is_refused_for_nothing),
    ("deliveries", an_event_behind_a_watermark),
    ("deliveries", watermarks_that_do_not_rise),
    ("deliveries", an_event_that_is_late_for_nothing),
    ("deliveries", an_event_that_no_reader_was_given),
    ("clients", a_writer_that_is_told_of_a_refusal),
    ("clients", a_writer_that_is_fenced_by_nobody),
    ("caches", a_controller_that_keeps_what_the_store_has_not),
    ("progress", time_that_stands_still),
    ("progress", a_controller_that_does_not_come_back),
]
STARTS_ITSELF = (
    a_writer_that_comes_back_and_is_told_no_floor,
    a_time_of_ingestion_that_overtakes_an_event,
    a_writer_that_is_named_too_early,
    silence_that_counts_while_nobody_served,
    silence_that_counts_while_the_process_is_stopped,
)


@pytest.mark.parametrize(("rule", "tell"), BROKEN, ids=[tell.__name__ for _, tell in BROKEN])
def test_a_history_that_breaks_one_rule_is_found_by_that_rule(rule: str, tell: Callable[..., Any]) -> None:
    story = Story()
    if tell in STARTS_ITSELF:
        story = tell()
    else:
        tell(story)
    assert {violation.rule for violation in judge(story.records)} == {rule}


def test_every_rule_has_a_history_that_breaks_it() -> None:
    assert {rule for rule, _ in BROKEN} == set(RULES)


def test_a_rule_that_is_left_out_tells_nothing() -> None:
    story = Story()
    time_that_stands_still(story)
    assert judge(story.records, without=frozenset({"progress"})) == []


def test_a_history_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    records = [*a_writer_that_was_lost().records, *a_group_that_shares().records, *answers_that_were_lost().records]
    records += [Outage(1, 2, "kill")]
    records += [Said("p", "s", 1, "refused", "fenced", "…"), delivered(1, 0, 5)]
    records += [Watermark("q", 1, 5), Window("w", 1, 2, "s", "", {"0": 4}, 5, None, True, 1, cached=True)]

    write_history(tmp_path / "history.jsonl", records)

    assert read_history(tmp_path / "history.jsonl") == records
