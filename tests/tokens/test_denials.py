"""Who is turned away has a line in the operators' log, and a flood of bad calls does not flood it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from controller.status.denied_calls import DENIALS_BURST_LINES, DENIALS_REFILL_MS

STREAM = {"segments": 1, "mark_interval_ms": 0}


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of the lines so far."""
    found: list[dict[str, Any]] = [vars(each)["fields"] for each in caplog.records if each.msg == "denied"]
    assert all(each.levelno == logging.WARNING for each in caplog.records if each.msg == "denied")
    return found


def test_a_denial_names_the_caller_the_call_and_the_need(keyed: Any, caplog: pytest.LogCaptureFixture) -> None:
    reader = keyed.make("reader", "a*")
    with caplog.at_level(logging.INFO):
        assert keyed.ask(None, "GET", "/v1/streams/s?x=hidden").status_code == 401
        assert keyed.ask("wrong-word", "PUT", "/v1/streams/s", STREAM).status_code == 401
        assert keyed.ask(reader, "PUT", "/v1/streams/s", STREAM).status_code == 403
        assert keyed.ask(reader, "GET", "/v1/streams/b").status_code == 403
        assert keyed.ask(reader, "GET", "/v1/streams/a").status_code == 404

    lines = told(caplog)
    assert [(line["code"], line["method"], line["path"], line.get("by")) for line in lines] == [
        ("unauthenticated", "GET", "/v1/streams/s", None),
        ("unauthenticated", "PUT", "/v1/streams/s", None),
        ("forbidden", "PUT", "/v1/streams/s", "reader-1"),
        ("forbidden", "GET", "/v1/streams/b", "reader-1"),
    ]
    assert "the role 'admin'" in lines[2]["detail"] and "a pattern that allows 'b'" in lines[3]["detail"]
    assert all(line["client"] for line in lines)
    assert not any(secret in str(lines) for secret in ("wrong-word", reader, "hidden"))


def test_a_flood_is_left_out_and_counted_and_hides_no_other_kind(keyed: Any, caplog: pytest.LogCaptureFixture) -> None:
    reader = keyed.make("reader")
    with caplog.at_level(logging.INFO):
        for _ in range(DENIALS_BURST_LINES + 7):
            assert keyed.ask("wrong", "GET", "/v1/streams").status_code == 401
        assert len(told(caplog)) == DENIALS_BURST_LINES
        keyed.ask(reader, "PUT", "/v1/streams/s", STREAM)
        assert told(caplog)[-1]["code"] == "forbidden"
        keyed.controller.clock.now += DENIALS_REFILL_MS
        for _ in range(3):
            keyed.ask("wrong", "GET", "/v1/streams")

    lines = [line for line in told(caplog) if line["code"] == "unauthenticated"]
    assert [line.get("omitted") for line in lines[DENIALS_BURST_LINES - 1 :]] == [None, 7]
