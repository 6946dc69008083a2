"""What a newcomer gets wrong at first: the answer names it, and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reader_client import EventReader, ReaderGroup
from strandline.core.note import Note
from strandline.errors import InvalidConfig, InvalidNote, UnknownPath
from writer_client import BackgroundWriter


def test_a_setting_takes_a_span_of_time_with_its_unit(served: Any, strandline: Callable[..., Any]) -> None:
    made = strandline("create", "spans", "--settings", "writer_timeout_ms=90s,idle_lag_ms=1m", "--json")
    assert made.code == 0, made.err
    found = json.loads(made.out)
    assert (found["writer_timeout_ms"], found["idle_lag_ms"]) == (90_000, 60_000)


def test_a_stream_that_is_there_with_another_setting_says_how_to_change_it(
    served: Any, strandline: Callable[..., Any]
) -> None:
    strandline("create", "changed")
    other = strandline("create", "changed", "--settings", "writer_timeout_ms=5s")
    assert "`strandline configure changed --settings writer_timeout_ms=5000` changes it" in other.err
    assert strandline("configure", "changed", "--settings", "writer_timeout_ms=5s").code == 0


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        ("no json\n", ("--field", "ts"), "there is no field 'ts'; it is no JSON object with fields"),
        (
            "1700000000000\n",
            ("--field", "ts"),
            "the value is 1700000000000, and no object: if that is its time, the field is '.'",
        ),
        ('{"ts": 1}\n', ("--field", "ts", "--fast", "nobody"), "--partition names the field that has them"),
    ],
)
def test_assess_says_what_a_line_lacks(
    strandline: Callable[..., Any], tmp_path: Path, text: str, words: tuple[str, ...], told: str
) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text(text)
    assert told in strandline("assess", str(file), *words).err
    assert "Name what to read: files, " in strandline("assess").err


def test_a_position_that_is_no_mapping_is_refused_by_name() -> None:
    writer = BackgroundWriter("http://127.0.0.1:9", "orders", "w")
    with pytest.raises(InvalidNote, match="position of a note cannot be 5: an offset for each segment"):
        writer.note_time(1_700_000_000_000, 5)  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(InvalidNote, match="position of a note cannot be 5: an offset for each segment"):
        Note(writer="w", times={"": 1_700_000_000_000}, position=5)  # type: ignore[arg-type]  # a waiting writer's


@pytest.mark.parametrize("logs", [5, {"orders": "orders.log"}])
def test_logs_that_are_none_are_refused_by_name(logs: Any) -> None:
    with pytest.raises(InvalidConfig, match="an open log for each stream"):
        EventReader("http://127.0.0.1:9", "group", "reader", logs)


def test_a_stream_in_place_of_a_list_of_streams_is_refused_by_name() -> None:
    with (
        ReaderGroup("http://127.0.0.1:9", "group") as group,
        pytest.raises(InvalidConfig, match=r"streams cannot be 'orders': a list of names, such as \['orders'\]"),
    ):
        group.create("orders")


def test_an_address_with_the_apis_path_is_told_to_leave_it_out() -> None:
    assert "leave /v1 out of the controller's address" in str(UnknownPath(path="/v1/v1/streams/orders"))
