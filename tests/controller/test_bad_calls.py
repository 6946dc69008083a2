"""Whatever is sent: a problem that names what is wrong, never a 500, and nothing changed. No store hears of a name that
none takes."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

STREAM, GROUP = "/v1/streams/s", "/v1/reader-groups/g"
NOTES, WINDOW, READER = f"{STREAM}/notes", f"{STREAM}/time-window", f"{GROUP}/readers/r"
CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
GOOD = {"writer": "a", "time": 5, "position": {"0": 1}}
PATH = {"stream": "s", "writer": "a", "group": "g", "reader": "r", "segment": "0", "time": "5", "controller": "c"}


def fill(controller: Any) -> Any:
    """A stream, a writer, a group and its reader."""
    controller.call("PUT", STREAM, CONFIG)
    controller.note("a", 5, {"0": 1})
    controller.call("PUT", GROUP, {"streams": ["s"]})
    controller.call("PUT", READER, {"positions": {"s": {"0": 1}}})
    return controller


@pytest.fixture
def filled(controller: Any) -> Any:
    return fill(controller)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, in_process: Any) -> Any:
    """For calls that are refused, and change nothing."""
    with in_process(tmp_path_factory.mktemp("notes") / "store.db") as controller:
        yield fill(controller)


def state(controller: Any) -> list[Any]:
    paths = (STREAM, f"{STREAM}/writers?limit=1000", f"{STREAM}/marks?limit=1000", GROUP, "/v1/streams")
    return [controller.call("GET", path) for path in paths]


# -- notes -------------------------------------------------------------------------------------------------------------


def body(**changes: Any) -> bytes:
    """A good note with changes; what is `...` is left out."""
    return json.dumps({name: value for name, value in {**GOOD, **changes}.items() if value is not ...}).encode()


def keyed(**changes: Any) -> bytes:
    return body(time=..., **changes)


BAD_NOTES = [
    (b"", 400, "bad_json", ""),
    (b'{"writer": "\xff", "time": 5, "position": {}}', 400, "bad_json", ""),
    (b'{"writer": "a", "time": NaN, "position": {}}', 400, "bad_json", ""),
    (b'{"writer": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "bad_json", "nested"),
    (b"[]", 422, "invalid_note", ""),
    (body(writer=...), 422, "invalid_note", "writer"),
    (body(time=...), 422, "invalid_note", "time"),
    (body(position=...), 422, "invalid_note", "position"),
    (body(colour="red"), 422, "invalid_note", "colour"),
    (body(writer="a" * 250), 422, "invalid_name", "249"),
    (body(writer="a/b"), 422, "invalid_name", "a/b"),
    (body(time="5"), 422, "invalid_note", "'5'"),
    (body(time=True), 422, "invalid_note", "true"),
    (body(time=2**53), 422, "invalid_note", str(2**53)),
    (body(position={"0": -1}), 422, "invalid_note", "-1"),
    (body(position={"0": 2**53}), 422, "invalid_note", str(2**53)),
    (body(position={"9": 1}), 422, "unknown_segment", "'9'"),
    (body(position={f"s{n}": 1 for n in range(65_537)}), 422, "too_many", "65536"),
    (body(epoch=0), 422, "invalid_note", "epoch"),
    (body(newest=2**53), 422, "invalid_note", str(2**53)),
    (body(newest={"": 1}), 422, "invalid_note", "newest"),
    (body(times={"a": 1}), 422, "invalid_note", "times"),
    (body(stream="s"), 422, "invalid_note", "stream"),
    (body(notes=[]), 422, "invalid_note", "notes"),
    (keyed(writer="b", times={}), 404, "unknown_writer", "'b'"),
    (keyed(times={"a b": 1}), 422, "invalid_name", "a b"),
    (keyed(times={"a": 1}, newest=2), 422, "invalid_note", "2"),
    (keyed(times={f"k{n}": 1 for n in range(257)}), 422, "too_many", "256"),
    (b'{"notes": {}}', 422, "invalid_note", "notes"),
    (b'{"notes": [' + b",".join([b"{}"] * 10_001) + b"]}", 422, "too_many", "10000"),
    (b" " * (1024 * 1024 + 1), 413, "too_large", str(1024 * 1024)),
]


def test_no_bad_note_is_taken_and_each_is_told_what_is_wrong(shared: Any) -> None:
    before = state(shared)
    for content, status, code, named in BAD_NOTES:
        answer = shared.request("POST", NOTES, content=content)
        told = f"{content[:80]!r}: {answer.status_code} {answer.text[:300]}"
        assert answer.headers["content-type"] == "application/problem+json", told
        problem = answer.json()
        assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code), told
        assert named in problem["detail"], told
        assert len(answer.content) < 8_000, told
    assert state(shared) == before


NUMBERS: st.SearchStrategy[Any] = st.sampled_from([
    0, 1, -1, 5, 2**53 - 1, 2**53, -(2**53), 2**63, 2**64, 10**30, 0.0, -0.0, 1.5, 1e308, True, False, None, "1", "", []
])  # fmt: skip
NAMES = st.sampled_from(
    ["a", "0", "", ".", "-", "a" * 249, "a" * 250, "a\x00", "\x1b[2J", "ä", "a/b", "a b", "\u202e", "\ud800"]
)
ODD_NOTES = st.fixed_dictionaries(
    {"writer": NAMES, "position": st.dictionaries(NAMES, NUMBERS, max_size=2)},
    optional={
        "time": NUMBERS,
        "times": st.dictionaries(NAMES, NUMBERS, max_size=2),
        "epoch": NUMBERS,
        "newest": NUMBERS | st.dictionaries(NAMES, NUMBERS, max_size=2),
        "stream": NAMES,
    },
)


@settings(max_examples=100)
@given(note=ODD_NOTES, path=st.sampled_from([NOTES, "/v1/notes"]), many=st.booleans())
def test_odd_values_are_taken_or_refused_and_refused_they_change_nothing(
    shared: Any, note: dict[str, Any], path: str, many: bool
) -> None:
    before = state(shared)
    answer = shared.request("POST", path, content=json.dumps({"notes": [note]} if many else note).encode())
    problem = answer.json()
    if answer.status_code == 200 and many:
        (problem,) = problem["results"]
    assert answer.status_code in (200, 400, 409, 413, 422), answer.text
    if "code" in problem:
        assert problem["status"] in (400, 404, 409, 413, 422) and problem["detail"]
        assert state(shared) == before


# -- other calls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "content", "status", "code"),
    [
        ("PUT /v1/streams/bad name", b'{"segments": 1}', 422, "invalid_name"),
        ("PUT /v1/streams/" + "x" * 250, b'{"segments": 1}', 422, "invalid_name"),
        ("PUT /v1/streams/t", b'{"segments": 1e400}', 422, "invalid_config"),
        ("PUT /v1/streams/s/writers/a", b'{"keys": "order_time"}', 400, "bad_json"),
        ("PUT /v1/streams/s/writers/a", b'{"keys": ["a b"]}', 422, "invalid_name"),
        ("POST /v1/streams/s/marks", b'{"key": 5}', 400, "bad_json"),
        ("POST /v1/streams/s/time-window", b'{"position": {"0": -1}}', 422, "invalid_note"),
        ("POST /v1/streams/s/scale", b'{"seal": {"0": -1}}', 422, "invalid_scale"),
        ("POST /v1/streams/s/seal", b'{"final": {"0": -1}}', 422, "invalid_scale"),
        ("POST /v1/streams/s/truncate", b'{"head": {"0": -1}}', 422, "invalid_note"),
        ("POST /v1/streams/s/tail", b'{"reporter": "t", "time": 1, "position": {}}', 409, "wrong_domain"),
        ("GET /v1/streams/s/marks?key=a%20b", b"", 422, "invalid_name"),
        ("GET /v1/streams/s/marks?after=-1", b"", 422, "invalid_parameter"),
        ("GET /v1/streams/s/marks?limit=1001", b"", 422, "invalid_parameter"),
        ("GET /v1/streams/s/marks?wait_ms=30001", b"", 422, "invalid_parameter"),
        ("GET /v1/streams/s/marks/at", b"", 422, "invalid_parameter"),
        ("GET /v1/streams/s/marks/at?time=9007199254740992", b"", 422, "invalid_parameter"),
        ("GET /v1/streams/s/segments/9/time-index", b"", 422, "unknown_segment"),
        ("GET /v1/streams/s/segments/0/time-index?token=9", b"", 422, "unknown_seq"),
        ("GET /v1/streams/s/segments/0/time-index?from_offset=9007199254740992", b"", 422, "invalid_parameter"),
        ("GET /v1/streams/s/journal?after=x", b"", 422, "invalid_parameter"),
        ("GET /v1/reader-groups/t/journal", b"", 404, "unknown_group"),
        ("POST /v1/streams/s/writers/a/idle?epoch=0", b"", 422, "invalid_parameter"),
        ("POST /v1/streams/s/writers/a/idle?epoch=1&epoch=2", b"", 422, "invalid_parameter"),
        ("POST /v1/streams/s/notes?epoch=1", b"{}", 422, "invalid_parameter"),
        ("DELETE /v1/streams/s/writers/a", b'{"epoch": 1}', 422, "invalid_parameter"),
        ("PUT /v1/reader-groups/h", b'{"streams": ["nowhere"]}', 404, "unknown_stream"),
        ("PUT /v1/reader-groups/h", b'{"streams": ["s"], "backlog_threshold_ms": 0}', 422, "invalid_config"),
        (
            "PUT /v1/reader-groups/h",
            b'{"streams": ["s"], "start": {"time": 1, "positions": {}}}',
            422,
            "invalid_config",
        ),
        ("PUT /v1/reader-groups/h", b'{"streams": ["s"], "start": {"time": 9007199254740992}}', 422, "invalid_note"),
        ("PUT /v1/reader-groups/h", b'{"streams": [], "start": {"positions": {"s": {"0": -1}}}}', 422, "invalid_note"),
        ("POST /v1/reader-groups/g/readers/r/acquire", b'{"epoch": 1, "max": -1}', 422, "invalid_note"),
        ("PATCH /v1/reader-groups/h", b"{}", 404, "unknown_group"),
        ("PATCH /v1/reader-groups/g", b'{"streams": ["s", "t"]}', 404, "unknown_stream"),
        ("GET /nowhere", b"", 404, "not_found"),
        ("PUT /v1/streams/s/notes", b"", 405, "method_not_allowed"),
    ],
)
def test_bad_calls_are_problems(shared: Any, call: str, content: bytes, status: int, code: str) -> None:
    method, _, path = call.partition(" ")
    answer = shared.request(method, path, content=content)
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


SEGMENTS = 'how many, "open", or a list of {"id", "low", "high"}'
STARTS = '"head", {"time": …} or {"positions": {…}}'


@pytest.mark.parametrize(
    ("call", "body", "said"),
    [
        (f"POST {NOTES}", {"writer": "a", "time": "5"}, "time cannot be '5': a whole number"),
        (f"POST {NOTES}", {"writer": "a", "position": [3]}, "position cannot be [3]: an object"),
        (f"PUT {READER}", {"positions": {"t": {"0": True}}}, "positions.t.0 cannot be true: a whole number"),
        (f"POST {NOTES}", {"writer": "a", "colour": 7},
         "colour cannot be 7: there is no such field, leave it out"),
        (f"POST {WINDOW}", {}, "position cannot be null: it is required"),
        (f"PUT {GROUP}", {"streams": ["s", 4]}, "streams[1] cannot be 4: a string"),
        (f"PUT {GROUP}", {"streams": ["s"], "start": {"when": 4}},
         f"start cannot be {{'when': 4}}: {STARTS} (Object contains unknown field `when`)"),
        (f"PUT {GROUP}", {"streams": ["s"], "reader_timeout_ms": True},
         "reader_timeout_ms cannot be true: a whole number from 1 up, or null"),
        ("PUT /v1/streams/t", {"segments": [{"low": 0, "high": 1}]},
         f"segments cannot be [{{'low': 0, 'high': 1}}]: {SEGMENTS} (Object missing required field `id` - at `$[0]`)"),
        (f"POST {STREAM}/writers/a/idle?epok=3", None,
         "the parameter epok cannot be '3': left out: this call takes epoch"),
    ],
)  # fmt: skip
def test_the_refusal_names_the_field_its_value_and_what_would_be_right(
    shared: Any, call: str, body: Any, said: str
) -> None:
    method, _, path = call.partition(" ")
    answer = shared.request(method, path, **({} if body is None else {"json": body}))
    assert (answer.status_code, answer.json()["detail"]) == (422, said)


def test_any_body_of_a_call_that_takes_none_is_refused(filled: Any) -> None:
    for body in (b"{}", b"null", b" "):
        answer = filled.request("DELETE", STREAM, content=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_parameter")
        assert f"body cannot be '{len(body)} bytes'" in answer.json()["detail"]
    idle = filled.request("POST", f"{STREAM}/writers/a/idle", content=b'{"epoch": 3}').json()["detail"]
    assert idle.endswith("none, and an epoch stands in the URL, as ?epoch=3")
    assert filled.request("DELETE", STREAM, content=b"").status_code == 204


@pytest.mark.parametrize("announced", ["Transfer-Encoding: chunked", "Content-Length: 2"])
def test_a_call_that_takes_no_body_is_refused_before_its_body_has_come(serve: Any, announced: str) -> None:
    server = serve()
    server.client.put(STREAM, json={"segments": 1})
    head = f"DELETE {STREAM} HTTP/1.1\r\nHost: localhost\r\n{announced}\r\n\r\n"
    with socket.create_connection((server.client.base_url.host, server.client.base_url.port), timeout=10) as caller:
        caller.sendall(head.encode())
        assert caller.recv(1 << 16).startswith(b"HTTP/1.1 422 ")
    assert server.client.get(STREAM).is_success


def test_all_methods_that_a_path_takes_are_named(shared: Any) -> None:
    answer = shared.request("POST", STREAM)
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, PATCH, PUT")
    assert answer.json()["allowed"] == ["DELETE", "GET", "PATCH", "PUT"]


# -- every call --------------------------------------------------------------------------------------------------------

BODIES = {
    "cut short": b'{"a": 1',
    "not a number": b'{"a": NaN}',
    "deep": b'{"more": ' + b"[" * 40 + b"]" * 40 + b"}",
    "very deep": b"[" * 100_000,
    "no text": b'{"a": "\xff\xfe"}',
    "control characters": b'{"a": "\x00\x1b"}',
    "a list": b"[1]",
    "null": b"null",
    "another field": b'{"colour": "red"}',
    "too large": b" " * (1024 * 1024 + 1),
}


def operations(controller: Any) -> Iterator[tuple[str, str, Any]]:
    """The method, the path and the description of each call."""
    for path, methods in controller.call("GET", "/openapi.json")["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


@pytest.mark.parametrize("what", BODIES)
def test_no_call_takes_what_no_body_may_be(shared: Any, what: str) -> None:
    before, calls = state(shared), 0
    for method, path, operation in operations(shared):
        if "requestBody" not in operation:
            continue
        calls += 1
        answer = shared.request(method, path.format(**PATH), content=BODIES[what])
        assert answer.status_code in (400, 413, 422), (method, path, answer.text[:300])
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]
    assert calls > 15 and state(shared) == before


UNPRINTABLE = ("\0", "a\0b")
BAD = (*UNPRINTABLE, "a/b", "ü", "x" * 250, "-")


def places(controller: Any) -> Iterator[tuple[str, str, str, str]]:
    """The method and path of each call, with each of its parameters that is a text: where it stands, and its name."""
    for method, path, operation in operations(controller):
        for parameter in operation.get("parameters", ()):
            schema = parameter["schema"]
            kinds = [schema, *schema.get("anyOf", ()), schema.get("items", {})]
            if any(each.get("type") == "string" for each in kinds):
                yield method, path, parameter["in"], parameter["name"]


@pytest.mark.usefixtures("store_url")
def test_no_invalid_name_of_any_call_reaches_a_store(filled: Any) -> None:
    found = set(places(filled))
    paged = {path for _, path, where, name in found if (where, name) == ("query", "after")}
    assert paged == {"/v1/streams", "/v1/streams/{stream}/writers", "/v1/reader-groups", "/v1/status"}

    for method, path, where, name in found:
        for bad in UNPRINTABLE if where == "path" else BAD:  # no path has all of them
            given = {**PATH, **({name: bad.replace("\0", "%00")} if where == "path" else {})}
            more: dict[str, Any] = {"params": {"time": 5}} if path.endswith("/marks/at") else {}
            if where == "query":
                more["params"] = {**more.get("params", {}), name: bad}
            elif where == "header":
                more["headers"] = {name: "x"}
            answer = filled.request(method, path.format(**given), **more)
            assert answer.status_code in (400, 404, 405, 422), (method, path, name, bad, answer.text)
            if where == "query":
                assert answer.json()["code"] in ("invalid_name", "invalid_parameter"), (path, name, bad)

    assert filled.app.state.controller.health.errors == {}
    filled.call("GET", "/readyz")
