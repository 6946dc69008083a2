"""What no body may be, whichever call it is sent to: refused as a problem, with nothing changed."""

from __future__ import annotations

from typing import Any

import pytest

DEEP = b'{"more": ' + b"[" * 40 + b"]" * 40 + b"}"
BODIES = {
    "cut short": b'{"a": 1',
    "no JSON": b"nonsense",
    "not a number": b'{"a": NaN}',
    "a name twice": b'{"keys": [], "keys": []}',
    "deep": DEEP,
    "very deep": b"[" * 100_000,
    "no text": b'{"a": "\xff\xfe"}',
    "control characters": b'{"a": "\x00\x1b"}',
    "a list": b"[1]",
    "a number": b"7",
    "null": b"null",
    "another field": b'{"colour": "red"}',
    "too large": b" " * (1024 * 1024 + 1),
}
PATH = {"stream": "s", "writer": "a", "group": "g", "reader": "r", "segment": "0", "controller": "c"}


@pytest.mark.parametrize("what", BODIES)
def test_no_call_takes_it(controller: Any, what: str) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None})
    controller.note("a", 5, {"0": 1})
    controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
    controller.call("PUT", "/v1/reader-groups/g/readers/r", {"positions": {"s": {"0": 1}}})

    def state() -> list[Any]:
        paths = ("/v1/streams/s", "/v1/streams/s/writers", "/v1/streams/s/marks", "/v1/reader-groups/g", "/v1/streams")
        return [controller.call("GET", path) for path in paths]

    before, calls = state(), 0
    for path, methods in controller.call("GET", "/openapi.json")["paths"].items():
        for method, operation in methods.items():
            if "requestBody" not in operation:
                continue
            calls += 1
            answer = controller.request(method.upper(), path.format(**PATH), content=BODIES[what])
            assert answer.status_code in (400, 413, 422), (method, path, answer.text[:300])
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["detail"]
    assert calls > 15 and state() == before


SEGMENTS = 'how many, "open", or a list of {"id", "low", "high"}'
STARTS = '"head", {"time": …} or {"positions": {…}}'
NOTES, WINDOW, GROUP = "/v1/streams/s/notes", "/v1/streams/s/time-window", "/v1/reader-groups/g"
READER = f"{GROUP}/readers/r"


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (NOTES, {"time": 1}, "writer of a note cannot be null: the writer's name"),
        (NOTES, {"writer": "a", "time": "5"}, "time of a note cannot be '5': a whole number"),
        (NOTES, {"writer": None, "time": 5}, "writer of a note cannot be null: a string"),
        (NOTES, {"writer": "a", "position": [3]}, "position of a note cannot be [3]: an object"),
        (NOTES, {"position": {"0": 1, "x": True}}, "position.x of a note cannot be true: a whole number"),
        (READER, {"positions": {"s": {"0": 1}, "t": {"0": True}}},
         "positions.t.0 of a note cannot be true: a whole number"),
        (NOTES, {"writer": "a", "colour": 7}, "colour of a note cannot be 7: there is no such field, leave it out"),
        (NOTES, {"notes": 7}, "notes of a note cannot be 7: a list"),
        (NOTES, [], "the body of a note cannot be []: an object"),
        (WINDOW, {}, "position of a note cannot be null: it is required"),
        (GROUP, {"streams": None}, "streams cannot be null: a list"),
        (GROUP, {"streams": ["s", 4]}, "streams[1] cannot be 4: a string"),
        (GROUP, {"streams": ["s"], "start": {"when": 4}},
         f"start cannot be {{'when': 4}}: {STARTS}; it has a field when, which does not exist"),
        (GROUP, {"streams": ["s"], "reader_timeout_ms": True},
         "reader_timeout_ms cannot be true: a whole number from 1 up, or null"),
        ("/v1/streams/t", {"segments": None}, f"segments cannot be null: {SEGMENTS}"),
        ("/v1/streams/t", {"segments": [{"id": 7, "low": 0, "high": 1}]},
         f"segments cannot be [{{'id': 7, 'low': 0, 'high': 1}}]: {SEGMENTS}; [0].id has to be a string"),
        ("/v1/streams/t", {"segments": [{"low": 0, "high": 1}]},
         f"segments cannot be [{{'low': 0, 'high': 1}}]: {SEGMENTS}; [0] has no id"),
    ],
)  # fmt: skip
def test_the_refusal_names_the_field_its_value_and_what_would_be_right(
    controller: Any, path: str, body: Any, said: str
) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 1})
    answer = controller.request("POST" if path in (NOTES, WINDOW) else "PUT", path, json=body)
    assert (answer.status_code, answer.json()["detail"]) == (422, said)
