"""No secret gets into a log, an answer, a sentence or a repr."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest

from controller.operators.log_lines import FORMATS
from controller.storage.database import open_database
from controller.storage.kinds import parse_url
from controller.storage.refusals import BadDatabaseUrl, StoreRefused, shown
from strandline.errors import InvalidConfig
from strandline.redaction import redact
from strandline.wire.problems import to_problem
from tests.served import NOON

TOKEN = "slt_" + "Zm9v" * 10 + "YmE"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"a {TOKEN} b", "a slt_… b"),
        (f'{{"token":"{TOKEN}"}}', '{"token":"slt_…"}'),
        ("Authorization: Bearer abc.def==", "Authorization: Bearer …"),
        ("postgresql://anna:se@cr/et@host:5432/db", "postgresql://anna:…@host:5432/db"),
        ("postgresql+psycopg://anna:secret@host", "postgresql+psycopg://anna:…@host"),
        ("postgresql://host/db?user=a&password=secret&x=1", "postgresql://host/db?user=a&password=…&x=…"),
        (
            "cannot open postgresql://u@h/db?bogus=se'c&sslmode=require",
            "cannot open postgresql://u@h/db?bogus=…&sslmode=require",
        ),
        (
            "GET http://127.0.0.1:8433/v1/streams?after=a&limit=5",
            "GET http://127.0.0.1:8433/v1/streams?after=a&limit=5",
        ),
        ("host=h password=secret dbname=d", "host=h password=… dbname=d"),
        ("http://127.0.0.1:8433/v1 and a@b", "http://127.0.0.1:8433/v1 and a@b"),
        ("the token is not known here", "the token is not known here"),
        ("strandline_stream_watermark_lag_milliseconds", "strandline_stream_watermark_lag_milliseconds"),
    ],
)
def test_of_a_secret_only_that_there_was_one_is_told(text: str, told: str) -> None:
    assert redact(text) == told == redact(told)


@pytest.mark.parametrize("form", FORMATS)
def test_a_log_line_and_its_traceback_have_no_secret(form: str) -> None:
    try:
        raise ValueError(f"cannot use {TOKEN} at postgresql://anna:sesame@host/db")
    except ValueError:
        told = sys.exc_info()
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "request with %s failed", (f"Bearer {TOKEN}",), told)

    line = FORMATS[form]().format(record)

    assert "ValueError: cannot use slt_… at postgresql://anna:…@host/db" in line
    assert TOKEN not in line and "sesame" not in line


@pytest.mark.parametrize(
    "url",
    [
        "mysql://anna:secret@host/db",
        "postgresql://anna:secret@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?user=anna&password=secret",
        "postgresql://anna@127.0.0.1:1/db?bogus=secret",
    ],
)
def test_a_database_that_cannot_be_used_is_told_without_its_password(url: str) -> None:
    with pytest.raises(StoreRefused) as raised:
        open_database(url)
    assert "secret" not in str(raised.value) + repr(raised.value) and "db" in str(raised.value)


def test_a_database_and_a_problem_are_shown_without_the_secrets_that_they_quote() -> None:
    assert shown(parse_url("postgresql://a:secret@h/db?password=secret")) == "postgresql://a:…@h/db?password=…"
    assert "secret" not in str(BadDatabaseUrl(url="x://a:secret@b"))

    problem = to_problem(InvalidConfig(name="x", value={"a": [f"say {TOKEN}"]}, wanted=f"not {TOKEN}"))

    assert TOKEN not in str(problem) and problem["value"] == {"a": ["say slt_…"]}
    assert problem["detail"].endswith("not slt_…")


MISPLACED: tuple[tuple[str, str, object], ...] = (
    ("GET", f"/v1/streams/{TOKEN}", None),
    ("GET", f"/v1/streams?after=a&limit={TOKEN}", None),
    ("GET", "/v1/streams/s/segments/0/time-index?token=another-kind-of-secret", None),
    ("PUT", "/v1/streams/t", {"segments": 1, "late_writers": TOKEN}),
    ("POST", "/v1/streams/s/notes", {"writer": "w", "time": TOKEN, "position": {}}),
    ("POST", "/v1/streams/s/notes", {"notes": [{"writer": f"{TOKEN} ", "time": 1, "position": {}}]}),
)


def test_no_answer_or_log_repeats_a_token_misplaced_or_shown(keyed: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "controller")
    admin, expired = keyed.make("admin"), keyed.make("admin", expires_at=NOON)
    keyed.ask(admin, "PUT", "/v1/streams/s", {"segments": 1})

    for method, path, body in MISPLACED:
        for token in (admin, None, TOKEN):
            answer = keyed.ask(token, method, path, body)
            assert TOKEN not in answer.text and "another-kind" not in answer.text, answer.text
            assert TOKEN not in str(answer.headers)
            assert token is None or token not in answer.text + caplog.text
    for shown_as in (f"Bearer {TOKEN}", f"Basic {TOKEN}", TOKEN, f"Bearer {expired}"):
        answer = keyed.controller.request("GET", "/v1/streams", headers={"Authorization": shown_as})
        assert answer.status_code == 401
        assert TOKEN not in answer.text + str(answer.headers) and expired not in answer.text
    assert TOKEN not in caplog.text and expired not in caplog.text
