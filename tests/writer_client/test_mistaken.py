"""What is no log, no event and no setting is refused where it is given, with what to give."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from strandline.errors import Fenced, InvalidConfig, InvalidName
from strandline.logs import Event
from strandline.logs.errors import InvalidEvent
from strandline.logs.sqlite import SqliteLog
from strandline.testing import ScriptedLog
from writer_client import AsyncWriter, AutomaticTime, BackgroundWriter, NoLog, Writer

NOWHERE = "http://127.0.0.1:9"  # nothing is called before the mistake is found


class OldLog:
    """A log of before there were transactions."""

    def append(self, events: Any) -> dict[str, int]:
        return {}


OPEN = r"log cannot be .*orders.log.*: a log that is open, as SqliteLog"
AUTOMATIC = r"automatically_note_time cannot be .*: true, false, or an AutomaticTime"
POSITION = AutomaticTime(position=dict)


@pytest.mark.parametrize("kind", [Writer, AsyncWriter, BackgroundWriter])
@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        *(({"log": log}, InvalidConfig, OPEN) for log in ("orders.log", Path("orders.log"), {"orders": "orders.log"})),
        ({"log": OldLog()}, InvalidConfig, r"log cannot be 'OldLog': a log whose in_transaction\(\) returns"),
        ({"keys": "order"}, InvalidConfig, "keys cannot be 'order': a list of time keys"),
        ({"keys": ["order time"]}, InvalidName, "order time"),
        ({"leaving": "closed"}, InvalidConfig, "leaving cannot be 'closed'"),
        ({"controller": "127.0.0.1:8433"}, InvalidConfig, "controller"),
        ({"stream": "or/ders"}, InvalidName, "or/ders"),
        ({"name": ""}, InvalidName, "writer"),
        ({"token": "a b"}, InvalidConfig, "token"),
        *(({"idle_after_ms": wrong}, InvalidConfig, "idle_after_ms") for wrong in (0, -1, 1.5, True)),
        ({"automatically_note_time": True}, NoLog, "log"),
        ({"automatically_note_time": POSITION, "log": ScriptedLog(3).writer()}, InvalidConfig, "log"),
        ({"automatically_note_time": POSITION, "idle_after_ms": 1_000}, InvalidConfig, "log"),
        *(
            ({"automatically_note_time": wrong, "log": ScriptedLog(3).writer()}, InvalidConfig, AUTOMATIC)
            for wrong in (5_000, "event", {"period_ms": 5_000})
        ),
    ],
)
def test_what_a_writer_cannot_be_made_of_is_refused_at_once(
    kind: Any, given: dict[str, Any], error: type[Exception], told: str
) -> None:
    options = {"controller": NOWHERE, "stream": "orders", "name": "w1", **given}
    with pytest.raises(error, match=told):
        kind(options.pop("controller"), options.pop("stream"), options.pop("name"), **options)


@pytest.mark.parametrize(
    "wrong", [{"period_ms": 0}, {"period_ms": 1.5}, {"lag_ms": -1}, {"domain": "processing"}], ids=str
)
def test_settings_of_the_clock_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig, match=next(iter(wrong))):
        AutomaticTime(**wrong)


@pytest.mark.parametrize("kind", [Writer, BackgroundWriter])
@pytest.mark.parametrize(
    ("events", "found"),
    [
        (["text"], "str"),
        ("text", "str, with no list around it"),
        (b"text", "bytes, with no list around it"),
        ([b"text"], "bytes"),
        ([Event(b"1", key=b"k"), {"value": b"2"}], "dict"),
        (Event(b"1", key=b"k"), "Event, with no list around it"),
    ],
    ids=["a text", "no list", "bytes", "bytes in a list", "the second", "an event without a list"],
)
def test_what_is_no_list_of_events_is_refused_before_anything_is_written(
    tmp_path: Path, kind: Any, events: Any, found: str
) -> None:
    with SqliteLog.create(tmp_path / "orders.log", 1) as log:
        writer = kind(NOWHERE, "orders", "w1", log=log)
        with pytest.raises(InvalidEvent, match=f"the type of an event cannot be '{found}': give a list of events"):
            writer.write(events)
        assert log.end_offsets() == {"0": 0}


def test_a_datetime_without_a_zone_is_refused_before_anything_is_noted() -> None:
    writer = BackgroundWriter(NOWHERE, "orders", "w")
    with pytest.raises(InvalidConfig, match="with a time zone, such as"):
        writer.note_time(datetime(2026, 1, 1), {"0": 1})  # noqa: DTZ001  # that is the mistake
    assert writer.status().waiting == 0


def test_what_fenced_advises_goes_by_what_the_newest_epoch_is() -> None:
    advice = {newest: str(Fenced(name="w1", epoch=5, newest=newest)).rpartition(": ")[2] for newest in (None, 3, 5, 7)}
    assert advice == {
        None: "register again and use the epoch it gives",
        3: "register again and use the epoch it gives",  # a store that was restored
        5: "leave it to that one",
        7: "if another process has registered the name, give each one of its own, or end one; then start this one "
        "again",
    }
