"""What is no log, and what is no event, is refused where it is given, with what to give."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from strandline.errors import Fenced, InvalidConfig
from strandline.logs import Event
from strandline.logs.errors import InvalidEvent
from strandline.logs.sqlite import SqliteLog
from writer_client import AsyncWriter, BackgroundWriter, Writer

NOWHERE = "http://127.0.0.1:9"  # nothing is called before the mistake is found


@pytest.mark.parametrize("kind", [Writer, AsyncWriter, BackgroundWriter])
@pytest.mark.parametrize(
    "log", ["orders.log", Path("orders.log"), {"orders": "orders.log"}], ids=["text", "path", "dict"]
)
def test_the_name_of_a_log_in_place_of_one_is_refused_at_once(kind: Any, log: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"log cannot be .*orders.log.*: a log that is open, as SqliteLog"):
        kind(NOWHERE, "orders", "w1", log=log)


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


@pytest.mark.parametrize("kind", [Writer, AsyncWriter, BackgroundWriter])
def test_a_time_key_in_place_of_a_list_of_them_is_refused_at_once(kind: Any) -> None:
    with pytest.raises(InvalidConfig, match="keys cannot be 'order': a list of time keys"):
        kind(NOWHERE, "orders", "w1", keys="order")


def test_a_log_that_cannot_tell_its_transactions_is_refused_at_once() -> None:
    class OldLog:
        def append(self, events: Any) -> dict[str, int]:
            return {}

    with pytest.raises(InvalidConfig, match=r"log cannot be 'OldLog': a log whose in_transaction\(\) says"):
        Writer(NOWHERE, "orders", "w1", log=cast(Any, OldLog()))


def test_what_fenced_advises_goes_by_what_the_newest_epoch_is() -> None:
    advice = {newest: str(Fenced(name="w1", epoch=5, newest=newest)).rpartition(": ")[2] for newest in (None, 3, 5, 7)}
    assert advice == {
        None: "register again and use the epoch it gives",
        3: "register again and use the epoch it gives",  # a store that was restored
        5: "leave it to that one",
        7: "give each process a name of its own, or end one, and start this one again",
    }
