"""What is declared of a route is what it answers, what OpenAPI and the reference say, and who may call it."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import Response

from controller.app import create_app
from controller.http.auth import Rules
from controller.http.declared import Routes
from controller.http.openapi import examples_by_route
from controller.http.responses import answer
from controller.http.routes import ROUTERS, declared_by
from controller.settings import Settings
from controller.tokens import Tokens
from strandline.access import Grant, Role
from strandline.errors import Forbidden
from strandline.wire.operations import Health
from tests.answers import check_shape
from tools.reference.routes import http

OF_SEVERAL = "POST /v1/controllers/{controller}/drain"  # the controller of the examples has nobody to hand over to
ANSWERING = [each for each in declared_by() if each.gives and each.name != OF_SEVERAL]


@pytest.mark.parametrize("route", ANSWERING, ids=lambda route: route.name)
def test_each_example_comes_from_a_call_and_fits_its_shape(route: Any) -> None:
    examples = examples_by_route()[route.name]
    assert {each["status"] for each in examples} == {route.status} | {each for each in route.also if each != 204}
    for example in examples:
        check_shape(route, example["answer"])


def test_every_shape_of_a_note_s_answer_has_an_example() -> None:
    answers = [each["answer"] for each in examples_by_route()["POST /v1/streams/{stream}/notes"]]
    assert any("held_by" in each for each in answers) and any("floors" in each for each in answers)
    assert any("code" in result for each in answers for result in each.get("results", []))


@pytest.mark.parametrize(
    ("answer", "why"),
    [({"status": "ok", "colour": "blue"}, "more"), ({}, "less"), ({"status": 1}, "another type")],
    ids=["more", "less", "another type"],
)
def test_an_answer_of_another_shape_does_not_pass(answer: Any, why: str) -> None:
    (health,) = [each for each in declared_by() if each.path == "/healthz"]
    with pytest.raises(AssertionError):
        check_shape(health, answer)


class OfAReader(Tokens):
    """Every token is a reader's."""

    def __init__(self) -> None:
        """There is no store."""

    def check(self, token: bytes) -> Grant:
        return Grant(name="anna", role=Role.READER)


def test_a_route_declared_once_is_in_auth_openapi_and_reference() -> None:
    extra = Routes("more", prefix="/v1/more")

    @extra.declare("GET /{stream}", "More about a stream", Role.ADMIN, gives=[Health])
    async def more(stream: str) -> Response:
        return answer(Health())

    routers = [*ROUTERS, extra]
    called = {"method": "GET", "path": "/v1/more/orders", "headers": []}
    with pytest.raises(Forbidden, match="admin"):
        Rules(declared_by(routers)).admit(called, {b"authorization": b"Bearer x"}, OfAReader())
    document = create_app(Settings(), routers=routers).openapi()
    operation = document["paths"]["/v1/more/{stream}"]["get"]
    assert operation["summary"] == "More about a stream" and "`admin`" in operation["description"]
    content = operation["responses"]["200"]["content"]["application/json"]
    assert content["schema"] == {"$ref": "#/components/schemas/Health"}
    page = http(document)
    assert "### `GET /v1/more/{stream}`\n\nMore about a stream. Role `admin`" in page
