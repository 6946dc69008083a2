"""`strandline create`: what comes into being, and what is told where it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest


def test_a_stream_has_the_segments_and_the_settings_it_was_created_with(
    served: Any, strandline: Callable[..., Any]
) -> None:
    settings = "min_writers=2, writer_timeout_ms=null,late_writers=skip,idle_lag_ms=1m"
    done = strandline("create", "created", "--segments", "3", "--settings", settings)
    assert (done.code, done.out, done.err) == (0, "created created\n", "")
    stream = served.call("GET", "/v1/streams/created")
    assert len(stream["segments"]) == 3
    assert (stream["min_writers"], stream["writer_timeout_ms"], stream["late_writers"]) == (2, None, "skip")
    assert stream["idle_lag_ms"] == 60_000


def test_said_again_it_changes_nothing_but_another_setting_is_an_error(
    served: Any, strandline: Callable[..., Any]
) -> None:
    assert strandline("create", "twice", "--settings", "min_writers=2").code == 0
    again = strandline("create", "twice", "--settings", "min_writers=2")
    assert (again.code, again.out) == (0, "twice was there already\n")
    other = strandline("create", "twice", "--settings", "min_writers=3")
    assert (other.code, other.out) == (1, "")
    assert "twice was there already, and its min_writers is 2" in other.err
    assert "`strandline configure twice min_writers=3` changes it" in other.err
    assert strandline("create", "twice", "--segments", "2").code == 1
    assert served.call("GET", "/v1/streams/twice")["min_writers"] == 2


def test_json_is_the_stream_and_open_ones_begin_without_segments(strandline: Callable[..., Any]) -> None:
    shown = json.loads(
        strandline("create", "opened", "--segments", "open", "--settings", "time_domain=ingestion", "--json").out
    )
    assert (shown["segments"], shown["time_domain"]) == ([], "ingestion")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--settings", "min_writer=2"), 1, "there is no setting 'min_writer' to give"),
        (("--settings", "min_writers=many"), 1, "min_writers"),
        (("--settings", "min_writers=2,min_writers=3"), 2, "twice"),
        (("--settings", "min_writers"), 2, "'min_writers' is no name=value"),
        (("--segments", "0"), 2, "0 is not in the range"),
        (("--segments", "closed"), 2, "nor open"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_named_and_nothing_is_created(
    served: Any, outside: Callable[..., Any], words: tuple[str, ...], code: int, told: str
) -> None:
    done = outside("create", "never", *words)
    assert (done.code, done.out) == (code, "") and told in done.err
    assert "never" not in served.call("GET", "/v1/streams")["streams"]
