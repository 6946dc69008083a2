"""`strandline api`."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlencode

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import json_option, json_or_text
from controller.operators.wording import compact, indented
from controller.terminal import Failure, say
from strandline.client.calls import ask

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def path_under_v1(text: str) -> str:
    """The whole path of a call: `streams/orders`, `/streams/orders` and `/v1/streams/orders` are the same."""
    if not re.fullmatch(r"[!-~]+", text) or "#" in text or "://" in text:
        raise click.BadParameter(f"{text[:200]!r} is no path: give one under /v1, as streams/orders")
    if text.partition("?")[0].endswith("/marks/live"):
        raise click.BadParameter(f"{text[:200]!r} has no end: use `strandline marks STREAM --follow`")
    return "/v1/" + text.removeprefix("/").removeprefix("v1/")


def named_value(text: str) -> tuple[str, Any]:
    """`name=value`; what is not JSON is text, so that words need no quotes."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text[:200]!r} is no value: give it as name=value")
    return name, json_or_text(value)


@click.command
@click.argument(
    "method", type=click.Choice(METHODS, case_sensitive=False), metavar="METHOD", help="GET, POST, PUT, PATCH or DELETE"
)
@click.argument("path", type=path_under_v1, help="the path under /v1, as streams/orders/marks")
@click.argument("values", nargs=-1, type=named_value, help="name=value: of the query for GET and DELETE, else the body")
@calls_controller
@json_option
def command(
    client: ControllerClient, method: str, path: str, values: tuple[tuple[str, Any], ...], as_json: bool
) -> None:
    """Make any call of the HTTP API, and print its answer, which is JSON in any case.

    A value is JSON, such as 5, null or {"0": 5}, or else a text.
    """
    in_query = method in ("GET", "DELETE")
    body = None if in_query or not values else _body(values)
    if in_query and values:
        path += f"{'&' if '?' in path else '?'}{urlencode([(name, _text(name, value)) for name, value in values])}"
    given = dict(values).get("wait_ms")
    wait_ms = given if in_query and isinstance(given, int) else 0
    answer = client.run(ask(method, path, bytes, body, repeatable=method != "POST", wait_ms=wait_ms))
    if answer:
        try:
            say(indented(json.loads(answer)))
        except ValueError:
            raise Failure(f"the answer is not JSON, and begins with {answer[:80]!r}") from None


def _body(values: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name, value in values:
        if name in body:
            raise click.BadParameter(f"{name!r} is given twice", param_hint="VALUES")
        body[name] = value
    return body


def _text(name: str, value: Any) -> str:
    """A value as a query has it. One name may be given several times there."""
    if value is None or isinstance(value, dict | list):
        raise click.BadParameter(f"{name!r} is {compact(value)}, which no query can have", param_hint="VALUES")
    return value if isinstance(value, str) else compact(value)
