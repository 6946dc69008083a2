"""Whether an answer of the controller is what is declared of its route, strictly: with no field more or less."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx
import msgspec

from controller.http.routes import ROUTES
from controller.http.shapes import JSON, ShapedRoute
from strandline.wire.problems import BY_CODE
from strandline.wire.shapes import convert
from strandline.wire.streams import KeyedNoteReply, NoteReply, NoteResults


@cache
def _routes() -> Mapping[re.Pattern[str], ShapedRoute]:
    parameter = re.compile(r"{\w+}")
    return {re.compile(parameter.sub("[^/]+", each.call)): each for each in ROUTES}


def route_of(method: str, path: str) -> ShapedRoute | None:
    """The declared route of a call; None for pages such as /docs."""
    call = f"{method} {path.partition('?')[0]}"
    return next((route for shape, route in _routes().items() if shape.fullmatch(call)), None)


def statuses_of(route: ShapedRoute) -> set[int]:
    """The statuses of answers that are no problems."""
    return {route.status_code or 200, *(each for each in route.responses if isinstance(each, int))}


def check_answer(method: str, path: str, response: httpx.Response) -> None:
    """Fails for an answer that is not of its route's shape."""
    route = route_of(method, path)
    if route is None:
        return
    assert response.status_code in statuses_of(route), f"{route.call}: {response}"
    if route.answers and response.status_code != 204:
        assert response.headers["content-type"] == JSON
        check_shape(route, response.json())
    elif response.status_code == 204:
        assert response.content == b""


def check_shape(route: ShapedRoute, answer: Any) -> None:
    """Fails unless one of the route's shapes has all that was answered, and nothing else."""
    fitting = [kind for kind in route.answers if _is(kind, answer)]
    assert len(fitting) == 1, f"{route.call}: {fitting} {answer}"


def _is(kind: type[Any], answer: Any) -> bool:
    if kind is NoteResults:  # whose parts are decoded one by one
        return answer.keys() == {"results"} and all(map(_is_result, answer["results"]))
    try:
        value = convert(answer, kind)
    except msgspec.ValidationError:
        return False
    return bool(json.loads(msgspec.json.encode(value)) == answer)


def _is_result(result: Any) -> bool:
    return result.get("code") in BY_CODE or _is(NoteReply, result) or _is(KeyedNoteReply, result)
