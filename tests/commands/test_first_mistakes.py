"""What a newcomer gets wrong at first: the answer names it, and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strandline.errors import UnknownPath


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


def test_an_address_with_the_apis_path_is_told_to_leave_it_out() -> None:
    assert "leave /v1 out of the controller's address" in str(UnknownPath(path="/v1/v1/streams/orders"))
