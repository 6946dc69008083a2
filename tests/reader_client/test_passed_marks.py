"""In whatever steps the group of a reader comes on or goes back, the reader goes by all of its marks."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from reader_client.jobs import drive
from reader_client.passed_marks import Judged, PassedMarks
from strandline.client import calls
from strandline.core.incomplete import Completeness, OnIncomplete
from strandline.errors import WritersLeftOut
from strandline.paced_log import PacedLog
from strandline.wire.groups import Aside, GroupWindow, KeyWindow, StreamWindow
from strandline.wire.streams import WireMark
from tests.served import AT_ONCE

# Who is excluded while time goes on, by a, to 10, 20, 30 …
EXCLUDED = ("", "b", "b", "bc", "c", "", "", "c", "bc", "b", "b", "b", "")
STEPS = {
    "one by one": range(len(EXCLUDED)),
    "backwards": range(len(EXCLUDED) - 1, -1, -1),
    "in leaps": (3, 11, 9, 9, 2, 10, 12, 1, 8, 4),
}


@pytest.fixture(scope="module")
def marks(controller: Any) -> tuple[Any, str, tuple[WireMark, ...]]:
    """A stream of the writers a, b and c, and its marks."""
    stream = controller.stream(1, replace(AT_ONCE, min_writers=3))
    controller.note(stream, 5, {"0": 1})
    out: set[str] = set()
    for number, excluded in enumerate(EXCLUDED, 1):
        for writer in "bc":
            if (writer in excluded) != (writer in out):
                call = calls.exclude if writer in excluded else calls.include
                controller.run(call(stream, writer))
        out = set(excluded)
        for writer in ("b", "c", "w1"):
            if writer not in out:
                controller.run(
                    calls.ask(
                        "POST", f"/v1/streams/{stream}/notes", lambda *_: None,
                        {"writer": writer, "time": 10 * number, "position": {"0": number}},
                    )
                )  # fmt: skip
    found = controller.run(calls.marks(stream)).marks
    assert {each.excluded for each in found} == {(), ("b",), ("c",), ("b", "c")}
    return controller, stream, found


def judged(
    policy: OnIncomplete,
    passed: PassedMarks,
    controller: Any,
    stream: str,
    mark: WireMark,
    aside: tuple[str, ...] | None = None,
) -> Judged:
    """At a mark, or where the group goes on without the stream, and without the writers that are set aside."""
    complete, watermark = mark.complete and not aside, mark.time + (0 if aside is None else 5)
    bounds = KeyWindow(mark.time, None, complete)
    of_stream = StreamWindow(
        lower=mark.time, upper=None, complete=complete, end_of_stream=False, lag_ms=None, behind_ms=None,
        position={}, keys={"": bounds}, set_aside=Aside(aside, {"": watermark}) if aside else None,
    )  # fmt: skip
    window = GroupWindow(
        streams={stream: of_stream}, watermarks={"": watermark}, held_by={"": stream}, complete=complete,
        lag_ms=None, backlog=False, idle=() if aside is None else (stream,),
    )  # fmt: skip
    return drive(passed.judge(window), controller.connection, time.sleep)


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("policy", ["go_on", "wait"])
@pytest.mark.parametrize("aside", [None, (), ("b",)], ids=["at the mark", "all have left", "b is set aside"])
def test_a_bound_and_whom_it_leaves_out_follow_from_all_marks_up_to_it(
    marks: tuple[Any, str, tuple[WireMark, ...]],
    policy: str,
    steps: Any,
    aside: tuple[str, ...] | None,
) -> None:
    controller, stream, every = marks
    follows = OnIncomplete(policy)
    passed = PassedMarks(follows, PacedLog("reader_client"))
    for step in steps:
        mark = every[min(step, len(every) - 1)]
        wanted = Completeness(stream, follows)
        for each in every[: mark.seq]:
            wanted.pass_mark(each.time, each.excluded)
        if aside is not None:
            wanted.pass_mark(mark.time + 5, {*wanted.left_out, *aside} if aside else ())
        found = judged(follows, passed, controller, stream, mark, aside)
        assert found.window.watermarks[""] == wanted.watermark
        assert found.window.streams[stream].keys[""].lower == min(mark.time, wanted.watermark or mark.time)
        if follows is OnIncomplete.GO_ON:
            assert found.left_out.get((stream, ""), {}) == wanted.there


def test_the_policy_to_fail_fails_after_the_last_complete_mark_only(
    marks: tuple[Any, str, tuple[WireMark, ...]],
) -> None:
    controller, stream, every = marks
    passed = PassedMarks(OnIncomplete.FAIL, PacedLog("reader_client"))
    for mark in every:
        assert judged(OnIncomplete.FAIL, passed, controller, stream, mark).window.watermarks[""] is not None
    controller.run(calls.exclude(stream, "b"))
    controller.run(calls.exclude(stream, "c"))
    controller.note(stream, 1_000, {"0": 50})
    last = controller.run(calls.marks(stream, after=every[-1].seq)).marks[-1]
    for _ in range(2):
        with pytest.raises(WritersLeftOut, match="leaves out b, c, and the last complete is"):
            judged(OnIncomplete.FAIL, passed, controller, stream, last)
