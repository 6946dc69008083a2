"""Whatever gets lost, and however late the log acknowledges: no note says more than is so, and the last arrives."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strandline.client.calls import Request
from writer_client import Event

STEPS = st.lists(st.sampled_from(["write", "note", "note", "slow", "begun", "quick", "answered", "idle"]), max_size=25)
FAULTS = st.lists(st.sampled_from(["", "away", "lost"]), max_size=20)


def notes_of(request: Request) -> list[dict[str, Any]]:
    if not request.path.endswith("/notes") or request.body is None:
        return []
    return list(request.body.get("notes", [request.body]))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS, faults=FAULTS)
def test_a_note_covers_all_earlier_writes_and_the_last_arrives(
    controller: Any, make_background: Any, faulty_pair: Any, steps: list[str], faults: list[str]
) -> None:
    stream = controller.stream()
    wire, log = faulty_pair([])
    written, written_before = 0, {0: 0}  # by time, how much was written when it was noted
    writer = make_background(stream, wire=wire, log=log)
    writer.register()
    wire.faults = list(faults)
    writer.note_time(0)  # so that there is a time to go idle with
    for step in steps:
        match step:
            case "write":
                writer.write([Event(b"x", segment="0")])
                written += 1
            case "note":
                time = max(written_before) + 1
                written_before[time] = written
                writer.note_time(time)
            case "slow":
                log.acknowledges.clear()
            case "begun":  # what comes now is not covered by a flush that is under way
                if not log.acknowledges.is_set():
                    log.flushes.wait(0.05)
            case "quick":
                log.acknowledges.set()
            case "answered" | "idle":
                log.acknowledges.set()
                assert writer.wait_until_answered()
                if step == "idle":
                    wire.faults = []  # idle(), and the write after it, tell their caller of a controller that is away
                    writer.idle()
    log.acknowledges.set()
    assert writer.wait_until_answered()
    for note in (note for request in wire.requests for note in notes_of(request)):
        assert note["position"].get("0", 0) >= written_before[note["time"]], note
    assert writer.status().noted == {"": max(written_before)}
    assert writer.status().refusals == 0
    times = [mark.time for mark in controller.marks(stream)]
    assert times == sorted(set(times))
    writer.release()
