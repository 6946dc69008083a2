"""Errors with --json: one object in one line, on standard error, whatever went wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest


def error_of(done: Any) -> dict[str, Any]:
    (line,) = done.err.splitlines()
    told: dict[str, Any] = json.loads(line)
    assert (done.out, told["exit_status"]) == ("", done.code)
    return told


def test_an_error_of_the_controller_has_its_code_its_fields_and_what_to_do(
    served: Any, strandline: Callable[..., Any]
) -> None:
    stream = served.stream()
    told = error_of(strandline("marks", stream.upper(), "--json"))
    assert (told["code"], told["stream"], told["command"]) == ("unknown_stream", stream.upper(), "marks")
    assert "did you mean" in told["detail"] and told["exit_status"] == 1


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("streams", "--controller", "http://127.0.0.1:9"), "controller_away", "was not reached"),
        (("token", "list"), "command_failed", "there is no store"),
        (("marks", "orders", "--limt", "5"), "wrong_command_line", "--limt"),
        (("mraks",), "wrong_command_line", "mraks"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_every_kind_of_error_is_an_object_with_a_code(
    outside: Callable[..., Any], words: tuple[str, ...], code: str, told: str
) -> None:
    error = error_of(outside(*words, "--json"))
    assert error["code"] == code and told in error["detail"]


def test_the_variable_of_json_counts_for_errors_too(outside: Callable[..., Any]) -> None:
    assert error_of(outside("marks", "nothing-of-that-name", STRANDLINE_JSON="yes"))["code"] == "unknown_stream"
    assert outside("marks", "nothing-of-that-name").err.startswith("strandline marks: there is no stream")
