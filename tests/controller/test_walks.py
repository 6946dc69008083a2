"""The walks in ARCHITECTURE.md: a profile of one note, and of one mark, shows the hops and the forms of its tables."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from controller.http.bodies import OneNoteBody
from controller.streams.notes import Noted
from reader_client import TimeWindows
from strandline.client.exchange import Exchange
from strandline.core.admission import Admitted
from strandline.core.chain import MarkChain
from strandline.core.changes import NoteResult
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from strandline.wire.streams import NoteReply
from tests.served import AT_ONCE, ROOT, Connected, InProcess, ManualClock
from writer_client import BackgroundWriter

PACKAGES = {"controller", "strandline", "writer_client", "reader_client"}
TIME = 7_654_321  # no other number here has these digits
STAYS = {"KeyState.note", "Committer.join"}  # where a note is left: with its writer, and in the batch


def named(title: str) -> list[str]:
    """What the lines of a table in ARCHITECTURE.md begin with."""
    after = (ROOT / "ARCHITECTURE.md").read_text().split(f"\n{title}\n", 1)[1]
    lines = after[after.index("\n|---") + 1 :].split("\n\n", 1)[0].splitlines()[1:]
    return [line.split("`")[1] for line in lines]


def profile_of(see: Callable[[FrameType, str, Any], None]) -> Callable[[FrameType, str, Any], None]:
    """A profile function that shows the calls and returns of our own code, but for what tests are given."""

    def show(frame: FrameType, event: str, value: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event in ("call", "return") and file.is_relative_to(ROOT):
            package, *rest = file.relative_to(ROOT).parts
            if package in PACKAGES and "testing" not in rest:
                see(frame, event, value)

    return show


# -- hops -----------------------------------------------------------------------------------------------------------


def is_note(value: Any) -> bool:
    """Whether a value is a whole note, or the answer to it, in any form."""
    if isinstance(value, bytes):
        return b'"writer":' in value or b'"late":' in value
    if isinstance(value, OneNoteBody | Note | Admitted | NoteResult | Noted | NoteReply):
        return True
    return isinstance(value, tuple) and any(map(is_note, value))


@pytest.fixture
def connected(tmp_path: Path) -> Iterator[Connected]:
    with Connected(tmp_path / "store.db", ManualClock()) as controller:
        yield controller


def test_a_warm_note_takes_the_hops_of_the_table(connected: Connected) -> None:
    controller = connected
    controller.create_stream("s", 2, StreamConfig(max_ahead_ms=None))
    for noted in (1, 2):
        controller.note("w", noted, {"0": noted})
    frames: list[FrameType] = []
    hops: set[FrameType] = set()

    def see(frame: FrameType, event: str, value: Any) -> None:
        if event == "call":
            frames.append(frame)
        if (event == "return" and is_note(value)) or frame.f_code.co_qualname in STAYS:
            above: FrameType | None = frame
            while above is not None:
                hops.add(above)
                above = above.f_back

    controller.portal.call(sys.setprofile, profile_of(see))
    controller.note("w", 3, {"0": 3})
    controller.portal.call(sys.setprofile, None)

    taken = list(dict.fromkeys(frame.f_code.co_qualname for frame in frames if frame in hops))
    assert taken == named("### The hops of a note in the controller")


# -- forms ----------------------------------------------------------------------------------------------------------


class Forms:
    """What has `TIME` in a field of its own, in the order in which our code first has it. What only holds a form whole,
    such as a queue or a page, has no `field` of that name."""

    def __init__(self, field: str) -> None:
        self.seen: dict[str, None] = {}
        self.profile = profile_of(self._see)
        self._field = field

    def _see(self, frame: FrameType, event: str, value: Any) -> None:
        if (
            "/controller/status/" in frame.f_code.co_filename
        ):  # it looks at everything now and then, and passes nothing on
            return
        for each in (*frame.f_locals.values(), value):
            form = self._form_of(each)
            if form is not None:
                self.seen.setdefault(form)

    def _form_of(self, value: Any) -> str | None:
        if isinstance(value, MarkChain):
            return "MarkChain" if len(value) else None
        if isinstance(value, dict):
            return None if TIME not in value.values() else "body" if "writer" in value else "times"
        if isinstance(value, Exchange):  # sockets are given it
            value = getattr(value, "content", None)  # None before it is made
        if isinstance(value, bytes):
            return "bytes" if str(TIME).encode() in value else None
        ours = is_dataclass(value) or isinstance(value, msgspec.Struct)
        return type(value).__name__ if ours and hasattr(value, self._field) and str(TIME) in repr(value) else None


def test_a_note_takes_the_forms_of_the_table_in_a_background_writer(controller: InProcess, tmp_path: Path) -> None:
    controller.create_stream("s", 2, StreamConfig(max_ahead_ms=None, min_writers=2))
    forms = Forms("times")
    threading.setprofile(forms.profile)
    try:
        with (
            SqliteLog.create(tmp_path / "log.db", 2) as log,
            BackgroundWriter(controller.listen(), "s", "w", log=log) as writer,
        ):
            writer.write([Event(b"x", segment="0")])
            sys.setprofile(forms.profile)
            writer.note_time(TIME)
            sys.setprofile(None)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)

    assert list(forms.seen) == named("### The forms of a note in a writer")


def test_a_mark_takes_the_tables_forms_towards_a_reader(controller: InProcess) -> None:
    controller.create_stream("s", 2, AT_ONCE)
    controller.note("w", TIME, {"0": 5})
    controller.call("POST", "/v1/streams/s/writers/w/idle")
    forms = Forms("upper")
    threading.setprofile(forms.profile)
    controller.portal.call(sys.setprofile, forms.profile)
    try:
        with TimeWindows(controller.listen(), "s", cached=True) as windows:
            windows.get_time_window({"0": 5})
            until = time.monotonic() + 60
            while windows.following[""].mark_seq is None and time.monotonic() < until:
                time.sleep(0.01)
            sys.setprofile(forms.profile)
            window = windows.get_time_window({"0": 5})
            sys.setprofile(None)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        controller.portal.call(sys.setprofile, None)

    assert window.lower == TIME
    assert sorted(forms.seen) == sorted(named("### The forms of a mark on its way to a reader"))
