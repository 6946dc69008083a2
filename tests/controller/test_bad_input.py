"""Whatever is sent: a problem that names what is wrong, never a 500, and nothing changed."""

import json
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.http.notes import read_closely, read_well_made
from strandline.errors import BadJson

GOOD = {"writer": "a", "time": 5, "position": {"0": 1}}
NOTES = "/v1/streams/s/notes"


def body(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


BAD_NOTES = [
    (b"", 400, "bad_json", ""),
    (b"{", 400, "bad_json", ""),
    (b"nonsense", 400, "bad_json", ""),
    (b'{"writer": "a", "time": 5, "position": {"0": 1}', 400, "bad_json", ""),
    (b'{"writer": "\xff", "time": 5, "position": {}}', 400, "bad_json", ""),
    (b'{"writer": "a", "time": NaN, "position": {}}', 400, "bad_json", ""),
    (b'{"writer": "a", "time": 5, "time": 6, "position": {}}', 400, "bad_json", "'time' stands twice"),
    (b'{"writer": "a", "time": 5, "position": {"0": 1, "0": 2}}', 400, "bad_json", "'0' stands twice"),
    (b'{"writer": "a", "time": 5, "position": {}, "epoch": 1, "epoch": null}', 400, "bad_json", "'epoch' stands twice"),
    (b'{"writer": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "bad_json", "nested"),
    (b'{"more": ' + b'{"a":' * 40 + b"1" + b"}" * 41, 400, "bad_json", "nested"),
    (b'{"writer": "' + b'\\"[' * 40 + b'", "time": 5, "position": {}}', 422, "invalid_name", ""),
    (b"[]", 422, "invalid_note", ""),
    (b"null", 422, "invalid_note", ""),
    (b"17", 422, "invalid_note", ""),
    (b"{}", 422, "invalid_note", "writer"),
    (without("writer"), 422, "invalid_note", "writer"),
    (without("time"), 422, "invalid_note", "time"),
    (without("position"), 422, "invalid_note", "position"),
    (body(colour="red"), 422, "invalid_note", "colour"),
    (body(writer=5), 422, "invalid_note", "5"),
    (body(writer=None), 422, "invalid_note", "writer"),
    (body(writer=""), 422, "invalid_name", ""),
    (body(writer="a" * 250), 422, "invalid_name", "249"),
    (body(writer="a\u0000b"), 422, "invalid_name", ""),
    (body(writer="a/b"), 422, "invalid_name", "a/b"),
    (body(writer="-a"), 422, "invalid_name", "-a"),
    (body(time="5"), 422, "invalid_note", "'5'"),
    (body(time=5.0), 422, "invalid_note", "5.0"),
    (body(time=True), 422, "invalid_note", "true"),
    (body(time=None), 422, "invalid_note", "time"),
    (body(time=2**53), 422, "invalid_note", str(2**53)),
    (body(time=-(2**53)), 422, "invalid_note", str(-(2**53))),
    (body(time=2**70), 422, "invalid_note", ""),
    (body(time=[5]), 422, "invalid_note", "[5]"),
    (body(position={"0": -1}), 422, "invalid_note", "-1"),
    (body(position={"0": 2**53}), 422, "invalid_note", str(2**53)),
    (body(position={"0": 1.0}), 422, "invalid_note", "1.0"),
    (body(position={"0": True}), 422, "invalid_note", "true"),
    (body(position={"0": None}), 422, "invalid_note", "position"),
    (body(position={"": 1}), 422, "invalid_name", ""),
    (body(position={"9": 1}), 422, "unknown_segment", "'9'"),
    (body(position=[1, 2]), 422, "invalid_note", "position"),
    (body(epoch=0), 422, "invalid_note", "epoch"),
    (body(epoch="1"), 422, "invalid_note", "epoch"),
    (body(epoch=2**53), 422, "invalid_note", "epoch"),
    (body(newest=2**53), 422, "invalid_note", str(2**53)),
    (body(newest={"": 1}), 422, "invalid_note", "newest"),
    (body(times={"a": 1}), 422, "invalid_note", "times"),
    (body(stream="s"), 422, "invalid_note", "stream"),
    (body(notes=[]), 422, "invalid_note", "notes"),
    (json.dumps({"writer": "a", "times": {}, "position": {}}).encode(), 404, "unknown_writer", "'a'"),
    (json.dumps({"writer": "a", "times": {"a b": 1}, "position": {}}).encode(), 422, "invalid_name", "a b"),
    (json.dumps({"writer": "a", "times": {"a": 1}, "newest": 2, "position": {}}).encode(), 422, "invalid_note", "2"),
    (
        json.dumps({"writer": "a", "times": {f"k{n}": 1 for n in range(257)}, "position": {}}).encode(),
        422,
        "too_many",
        "256",
    ),
    (body(position={f"s{n}": 1 for n in range(65_537)}), 422, "too_many", "65536"),
    (b'{"notes": {}}', 422, "invalid_note", "notes"),
    (b'{"notes": [' + b",".join([b"{}"] * 10_001) + b"]}", 422, "too_many", "10000"),
    (b'{"notes": [' + b",".join([b"7"] * 10_001) + b"]}", 422, "too_many", "10000"),
    (b'{"notes": [], "notes": []}', 400, "bad_json", "'notes' stands twice"),
    (b" " * (1024 * 1024 + 1), 413, "too_large", str(1024 * 1024)),
]


@pytest.fixture
def controller_with_stream(controller: Any) -> Any:
    controller.call("PUT", "/v1/streams/s", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None})
    return controller


def test_no_bad_note_is_taken_and_each_is_told_what_is_wrong(controller_with_stream: Any) -> None:
    controller = controller_with_stream
    before = controller.call("GET", "/v1/streams/s"), controller.call("GET", "/v1/streams/s/writers")
    for content, status, code, named in BAD_NOTES:
        answer = controller.request("POST", NOTES, content=content)
        told = f"{content[:80]!r}: {answer.status_code} {answer.text[:300]}"
        assert answer.headers["content-type"] == "application/problem+json", told
        problem = answer.json()
        assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code), told
        assert named in problem["detail"], told
        assert len(answer.content) < 8_000, told
    assert (controller.call("GET", "/v1/streams/s"), controller.call("GET", "/v1/streams/s/writers")) == before


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "code"),
    [
        ("PUT", "/v1/streams/bad name", b'{"segments": 1}', 422, "invalid_name"),
        ("PUT", "/v1/streams/" + "x" * 250, b'{"segments": 1}', 422, "invalid_name"),
        ("PUT", "/v1/streams/t", b'{"segments": 1, "segments": 2}', 400, "bad_json"),
        ("PUT", "/v1/streams/t", b'{"segments": 1e400}', 422, "invalid_config"),
        ("PUT", "/v1/streams/s/writers/a", b'{"keys": "order_time"}', 400, "bad_json"),
        ("PUT", "/v1/streams/s/writers/a", b'{"keys": ["a b"]}', 422, "invalid_name"),
        ("PUT", "/v1/streams/s/writers/a%20b", b"", 422, "invalid_name"),
        ("POST", "/v1/streams/s/marks", b'{"key": 5}', 400, "bad_json"),
        ("POST", "/v1/streams/s/marks", b'{"key": "a b"}', 422, "invalid_name"),
        ("POST", "/v1/streams/s/time-window", b'{"position": {"0": -1}}', 422, "invalid_note"),
        ("POST", "/v1/streams/s/time-window", b'{"position": {"0": true}}', 422, "invalid_note"),
        ("POST", "/v1/streams/s/time-window", b'{"position": {"0": 1, "0": 1}}', 400, "bad_json"),
        ("POST", "/v1/streams/s/scale", b'{"seal": {"0": 1.5}}', 400, "bad_json"),
        ("POST", "/v1/streams/s/scale", b'{"seal": {"0": -1}}', 422, "invalid_scale"),
        ("POST", "/v1/streams/s/scale", b'{"seal": {}, "create": []}', 422, "invalid_scale"),
        ("POST", "/v1/streams/s/seal", b'{"final": {"0": -1}}', 422, "invalid_scale"),
        ("POST", "/v1/streams/s/truncate", b'{"head": {"0": -1}}', 422, "invalid_note"),
        ("POST", "/v1/streams/s/tail", b'{"reporter": "t", "time": 1, "position": {}}', 409, "wrong_domain"),
        ("GET", "/v1/streams/s/marks?key=a%20b", b"", 422, "invalid_name"),
        ("GET", "/v1/streams/s/marks?after=-1", b"", 422, "invalid_parameter"),
        ("GET", "/v1/streams/s/marks?limit=0", b"", 422, "invalid_parameter"),
        ("GET", "/v1/streams/s/marks?limit=1001", b"", 422, "invalid_parameter"),
        ("GET", "/v1/streams/s/marks?wait_ms=30001", b"", 422, "invalid_parameter"),
        ("GET", "/v1/streams/s/marks/at", b"", 422, "invalid_parameter"),
        ("GET", "/v1/streams/s/marks/at?time=9007199254740992", b"", 422, "invalid_parameter"),
        ("GET", "/v1/streams/s/marks/at?time=1.5", b"", 422, "invalid_parameter"),
        ("POST", "/v1/streams/s/writers/a/idle?epoch=x", b"", 422, "invalid_parameter"),
        ("POST", "/v1/streams/s/writers/a/idle?Epoch=1", b"", 422, "invalid_parameter"),
        ("POST", "/v1/streams/s/writers/a/idle?epoch=1&epoch=2", b"", 422, "invalid_parameter"),
        ("POST", "/v1/streams/s/notes?epoch=1", b"{}", 422, "invalid_parameter"),
        ("DELETE", "/v1/streams/s/writers/a", b'{"epoch": 1}', 422, "invalid_parameter"),
        ("POST", "/v1/streams/s/writers/a/exclude", b'{"epoch": 1}', 422, "invalid_parameter"),
        ("PUT", "/v1/reader-groups/g", b'{"streams": []}', 422, "invalid_config"),
        ("PUT", "/v1/reader-groups/g", b'{"streams": ["nowhere"]}', 404, "unknown_stream"),
        ("PUT", "/v1/reader-groups/g", b'{"streams": ["s"], "backlog_threshold_ms": 0}', 422, "invalid_config"),
        ("PUT", "/v1/reader-groups/g", b'{"streams": ["s"], "start": "end"}', 422, "invalid_config"),
        (
            "PUT",
            "/v1/reader-groups/g",
            b'{"streams": ["s"], "start": {"time": 1, "positions": {}}}',
            422,
            "invalid_config",
        ),
        ("GET", "/v1/reader-groups/g", b"", 404, "unknown_group"),
        ("PUT", "/v1/reader-groups/g/readers/r", b"{}", 404, "unknown_group"),
        ("GET", "/nowhere", b"", 404, "not_found"),
        ("DELETE", "/v1/streams/s/", b"", 404, "not_found"),
        ("PUT", NOTES, b"", 405, "method_not_allowed"),
        ("PATCH", "/healthz", b"", 405, "method_not_allowed"),
    ],
)
def test_bad_calls_are_problems(
    controller_with_stream: Any, method: str, path: str, content: bytes, status: int, code: str
) -> None:
    answer = controller_with_stream.request(method, path, content=content)

    assert answer.headers["content-type"] == "application/problem+json", answer.text
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/streams/s/writers/a/idle?epok=3", b"", "epok cannot be '3': left out: this call takes epoch"),
        ("/v1/streams/s/writers/a/idle", b'{"epoch": 3}', "none, and an epoch stands in the URL, as ?epoch=3"),
        ("/v1/streams/s/writers/a/exclude", b'{"epoch": 3}', "left out: this call takes none"),
    ],
)
def test_what_a_call_does_not_take_is_named(controller_with_stream: Any, path: str, body: bytes, words: str) -> None:
    assert controller_with_stream.request("POST", path, content=body).json()["detail"].endswith(words)


@pytest.mark.parametrize("body", [b"{}", b"null", b" "])
def test_any_body_of_a_call_that_takes_none_is_refused(controller_with_stream: Any, body: bytes) -> None:
    answer = controller_with_stream.request("DELETE", "/v1/streams/s", content=body)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_parameter")
    assert f"body cannot be '{len(body)} bytes'" in answer.json()["detail"]
    assert controller_with_stream.request("DELETE", "/v1/streams/s", content=b"").status_code == 204


@pytest.mark.parametrize("announced", ["Transfer-Encoding: chunked", "Content-Length: 2"])
def test_a_call_that_takes_no_body_is_refused_before_its_body_has_come(serve: Any, announced: str) -> None:
    server = serve()
    server.client.put("/v1/streams/s", json={"segments": 1})
    head = f"DELETE /v1/streams/s HTTP/1.1\r\nHost: localhost\r\n{announced}\r\n\r\n"
    with socket.create_connection((server.client.base_url.host, server.client.base_url.port), timeout=10) as caller:
        caller.sendall(head.encode())

        assert caller.recv(1 << 16).startswith(b"HTTP/1.1 422 ")

    assert server.client.get("/v1/streams/s").is_success


def test_all_methods_that_a_path_takes_are_named(controller_with_stream: Any) -> None:
    answer = controller_with_stream.request("POST", "/v1/streams/s")

    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, PATCH, PUT")
    assert answer.json()["allowed"] == ["DELETE", "GET", "PATCH", "PUT"]


OFFSETS = st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=3)


@given(
    writer=st.text(max_size=4),
    position=OFFSETS,
    times=OFFSETS,
    repeated=st.booleans(),
    spaced=st.booleans(),
)
def test_a_name_that_stands_twice_is_always_found_and_nothing_else_is(
    writer: str, position: dict[str, int], times: dict[str, int], repeated: bool, spaced: bool
) -> None:
    text = json.dumps({"writer": writer, "position": position, "times": times}, indent=1 if spaced else None)
    if repeated:
        text = text[:-1] + ', "writer": ' + json.dumps(writer) + "}"
    body = text.encode()
    if repeated:
        assert read_well_made(body) is None
        with pytest.raises(BadJson, match="stands twice"):
            read_closely(body)
    else:
        assert (read_well_made(body) or read_closely(body)) == read_closely(body)
