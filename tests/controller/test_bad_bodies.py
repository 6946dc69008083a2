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
