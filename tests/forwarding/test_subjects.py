"""Which calls are about a stream or a group follows from the declared routes."""

from __future__ import annotations

import pytest

from controller.cluster.records import Kind
from controller.http.declared import DeclaredRoute
from controller.http.forwarding.subjects import Subject, Subjects
from controller.http.routes import declared_by
from strandline.limits import WAIT_BOUND_MS

SUBJECTS = Subjects(declared_by())


@pytest.mark.parametrize("route", declared_by(), ids=lambda route: route.name)
def test_a_route_is_about_what_its_path_names(route: DeclaredRoute) -> None:
    path = route.path.replace("{stream}", "orders").replace("{group}", "billing").replace("{", "").replace("}", "")
    expected = None
    if "{stream}" in route.path:
        expected = Subject(Kind.STREAM, "orders")
    elif "{group}" in route.path:
        expected = Subject(Kind.GROUP, "billing")
    assert SUBJECTS.of(route.method, path) == expected


@pytest.mark.parametrize(
    "path", ["/v1/streams/", "/v1/streams", "/v1/streams/!", "/v1/streams/a%2Fb", "/x/streams/a", "/"]
)
def test_a_path_without_a_valid_name_is_about_nothing(path: str) -> None:
    assert SUBJECTS.of("GET", path) is None


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE"])
def test_a_method_that_no_route_has_is_not_passed_on(method: str) -> None:
    assert SUBJECTS.of(method, "/v1/streams/orders") is None


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("/v1/streams/s/marks", b"", None),
        ("/v1/streams/s/marks", b"after=3", None),
        ("/v1/streams/s/marks", b"after=3&wait_ms=250", 250),
        ("/v1/streams/s/marks", b"wait_ms=99999999", WAIT_BOUND_MS),
        ("/v1/streams/s/marks", b"wait_ms=" + b"9" * 5000, 0),
        ("/v1/streams/s/marks", b"wait_ms=soon", 0),
        ("/v1/streams/s/marks/live", b"", WAIT_BOUND_MS),
    ],
)
def test_only_answers_that_wait_may_take_longer(path: str, query: bytes, expected: int | None) -> None:
    assert SUBJECTS.wait_ms({"path": path, "query_string": query}) == expected
