"""Bodies that come slowly, in pieces, or under another name than JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from controller.http.request_bodies import BodiesRead, read_body
from strandline.errors import BadJson, Overloaded, TooLarge

APP = Starlette()
APP.state.bodies = BodiesRead(MEMORY_BYTES := 20)
SCOPE: dict[str, Any] = {"type": "http", "path": "/sign-in", "headers": [], "app": APP}


def receiving(*messages: dict[str, Any], slowly: bool = False) -> Callable[[], Coroutine[Any, Any, dict[str, Any]]]:
    """Gives these, and then nothing any more."""
    left = list(messages)

    async def receive() -> dict[str, Any]:
        if slowly:
            await asyncio.sleep(0)
        if not left:
            await asyncio.Event().wait()
        return left.pop(0)

    return receive


def part(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


@pytest.mark.parametrize("slowly", [True, False])
@pytest.mark.parametrize(
    ("messages", "limit", "expected"),
    [
        ([part(b"all of it", more=False)], 9, b"all of it"),
        ([part(b"all ", more=True), part(b"of ", more=True), part(b"it", more=False)], 9, b"all of it"),
        ([part(b"", more=False)], 9, b""),
        ([part(b"all of it", more=False)], 8, TooLarge),
        ([part(b"all ", more=True), part(b"of it", more=True)], 8, TooLarge),
        ([{"type": "http.disconnect"}], 9, BadJson),
        ([part(b"all ", more=True), {"type": "http.disconnect"}], 9, BadJson),
    ],
)
def test_a_body_comes_whole_within_its_limit_or_is_refused(
    messages: list[dict[str, Any]], limit: int, expected: Any, slowly: bool
) -> None:
    async def read() -> bytes:
        return await read_body(Request(dict(SCOPE), receiving(*messages, slowly=slowly)), limit)

    if isinstance(expected, bytes):
        assert asyncio.run(read()) == expected
    else:
        with pytest.raises(expected):
            asyncio.run(read())


def test_the_bodies_of_all_callers_together_are_bounded_and_leave_no_trace() -> None:
    half = b"x" * (MEMORY_BYTES // 2)

    async def scene() -> None:
        first = asyncio.ensure_future(read_body(Request(SCOPE, receiving(part(half, more=True))), 99))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await read_body(Request(SCOPE, receiving(part(half, more=True), part(b"x", more=True))), 99)
        assert len(await read_body(Request(SCOPE, receiving(part(half, more=True), part(b"", more=False))), 99)) == len(
            half
        )
        first.cancel()

    for _ in range(2):
        asyncio.run(scene())
