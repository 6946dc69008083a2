"""Names that no store takes are refused at the edge, wherever a call has one: no store hears of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

GOOD = {"stream": "s", "writer": "a", "group": "g", "reader": "r", "segment": "0", "time": "5", "controller": "c"}
UNPRINTABLE = ("\0", "a\0b")
NO_PATTERNS = (*UNPRINTABLE, "a/b", "ü", "x" * 250)
BAD = (*NO_PATTERNS, "-")
OTHER_TEXTS = {("/v1/journal", "search"): UNPRINTABLE, ("/v1/journal", "stream"): NO_PATTERNS}


@pytest.fixture
def database(store_url: str) -> str:
    return store_url


def places(document: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """The method and path of each call, with each of its parameters that is a text: where it stands, and its name."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", ()):
                schema = parameter["schema"]
                kinds = [schema, *schema.get("anyOf", ()), schema.get("items", {})]
                if any(each.get("type") == "string" for each in kinds):
                    yield method.upper(), path, parameter["in"], parameter["name"]


def test_no_invalid_name_of_any_call_reaches_a_store(controller: Any) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None})
    controller.note("a", 5, {"0": 1})
    controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
    found = set(places(controller.call("GET", "/openapi.json")))
    paged = {path for _, path, where, name in found if (where, name) == ("query", "after")}
    assert paged == {"/v1/streams", "/v1/streams/{stream}/writers", "/v1/reader-groups", "/v1/status"}

    for method, path, where, name in found:
        for bad in UNPRINTABLE if where == "path" else OTHER_TEXTS.get((path, name), BAD):  # no path has all of them
            given = {**GOOD, **({name: bad.replace("\0", "%00")} if where == "path" else {})}
            more: dict[str, Any] = {"params": {"time": 5}} if path.endswith("/marks/at") else {}
            if where == "query":
                more["params"] = {**more.get("params", {}), name: bad}
            elif where == "header":
                more["headers"] = {name: "x"}
            answer = controller.request(method, path.format(**given), **more)
            assert answer.status_code in (400, 404, 405, 422), (method, path, name, bad, answer.text)
            if where == "query":
                assert answer.json()["code"] in ("invalid_name", "invalid_parameter"), (path, name, bad)

    assert controller.app.state.controller.health.errors == {}
    controller.call("GET", "/readyz")
