"""A refusal of the last note before a writer ends: the end raises it, or standard error has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from strandline.core.config import StreamConfig
from strandline.errors import Refused, TimeTooFarAhead, UnknownSegment, UnknownStream
from tests.writer_client.clocks import SOON, Clock, wait_for
from tests.writer_client.test_leaving import run
from writer_client import AutomaticTime, BackgroundWriter

NOW_US = time.time_ns() // 1_000
CONFIG = StreamConfig(mark_interval_ms=0)  # refuses a time far ahead
ENDS: dict[str, Callable[[Any], object]] = {
    "the block": lambda writer: writer.__exit__(None, None, None),
    "close": lambda writer: writer.close(),
    "idle": lambda writer: writer.idle(),
}
REFUSALS: dict[str, tuple[int, dict[str, int], type[Refused]]] = {
    "no stream": (100, {"0": 1}, UnknownStream),
    "microseconds": (NOW_US, {"0": 1}, TimeTooFarAhead),
    "an unknown segment": (100, {"nowhere": 1}, UnknownSegment),
}


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_background_writer_raises_the_refusal_of_its_last_note_once(
    controller: Any, refusal: str, end: str
) -> None:
    at, position, error = REFUSALS[refusal]
    stream = "nosuch" if refusal == "no stream" else controller.stream(config=CONFIG)
    writer = BackgroundWriter(controller.url, stream, "w1").__enter__()
    if refusal != "no stream":
        writer.note_time(100, {"0": 1})
        assert writer.wait_until_answered()
    writer.note_time(at, position)
    with pytest.raises(error):
        ENDS[end](writer)
    if end != "the block" and refusal != "no stream":
        ENDS[end](writer)
        assert controller.states(stream) == {"closed" if end == "close" else "idle": 1}
    writer.release()


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_writer_raises_the_refusal_of_its_clock(controller: Any, make_any: Any, end: str) -> None:
    automatic = AutomaticTime(period_ms=SOON, clock=Clock(NOW_US), position=lambda: {"0": 1})
    writer = make_any(controller.stream(config=CONFIG), automatically_note_time=automatic)
    writer.__enter__()
    wait_for(lambda: writer.status().refusals)
    with pytest.raises(TimeTooFarAhead):
        ENDS[end](writer)
    writer.release()


def test_the_end_of_a_process_tells_of_a_refusal_that_no_call_raised(controller: Any) -> None:
    for ending in ("", "writer.wait_until_answered()", "sys.exit(3)"):
        done = run(
            f"writer = BackgroundWriter(url, stream, 'w1'); writer.note_time(100, {{'0': 1}}); {ending}",
            controller.url,
            "nosuch",
            "unused",
        )
        assert done.returncode == (3 if "exit" in ending else 0)
        (told,) = [line for line in done.stderr.splitlines() if line.startswith("strandline:")]
        assert "a note of writer 'w1' of stream 'nosuch' was refused" in told
        assert "there is no stream 'nosuch'" in told


def test_a_block_that_raises_something_else_tells_of_the_refusal(
    controller: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ZeroDivisionError), BackgroundWriter(controller.url, "nosuch", "w1") as writer:
        writer.note_time(100, {"0": 1})
        raise ZeroDivisionError
    assert capsys.readouterr().err.count("there is no stream 'nosuch'") == 1
