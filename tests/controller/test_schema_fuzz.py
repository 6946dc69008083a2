"""Every call that the OpenAPI document describes, with what it allows and what it does not: never a 500.

The calls that wait are left out (events without end) or do not wait (marks).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

pytestmark = pytest.mark.full

EXAMPLES = 8  # of each call and mode
WITHOUT_END = "/v1/streams/{stream}/marks/live"
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
NAMES = {"stream": "s", "writer": "a", "group": "g", "reader": "r", "segment": "0", "controller": "c"}


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory, own_process: Any) -> Any:
    """The document of a controller in a process of its own, and a client of it."""
    with own_process(tmp_path_factory.mktemp("fuzzed") / "store.db") as server:
        document = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        yield document, server.client
        assert server.client.get("/readyz").status_code == 200


def make_anew(client: httpx.Client) -> None:
    """A stream, a writer, a group and a reader, whatever became of those before."""
    client.delete("/v1/reader-groups/g")
    client.delete("/v1/streams/s")
    client.put("/v1/streams/s", json={"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None})
    client.post("/v1/streams/s/notes", json={"writer": "a", "time": 5, "position": {"0": 1}})
    client.put("/v1/reader-groups/g", json={"streams": ["s"]})
    made = client.put("/v1/reader-groups/g/readers/r", json={"positions": {"s": {"0": 1}}})
    assert made.status_code == 200


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "not_allowed"])
def test_no_described_call_breaks_the_controller(described: Any, mode: GenerationMode) -> None:
    document, client = described
    seen = set()
    for result in document.get_all_operations():
        operation = result.ok()
        if operation.path == WITHOUT_END:
            continue
        seen.add((operation.method.upper(), operation.path))
        make_anew(client)

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
        )
        @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans())
        def fuzz(case: Any, known: bool) -> None:
            if known:  # otherwise nearly every path is one to nowhere
                case.path_parameters.update({name: NAMES[name] for name in case.path_parameters})
            if type((case.query or {}).get("wait_ms")) is int and case.query["wait_ms"] > 0:
                case.query["wait_ms"] = 1
            case.call_and_validate(checks=CHECKS, timeout=60)

        with suppress(Unsatisfiable):  # nothing about this call can be wrong
            fuzz()
    assert {("POST", "/v1/streams/{stream}/notes"), ("POST", "/v1/streams/{stream}/time-window")} <= seen
