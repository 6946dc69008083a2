"""Bodies that come slowly, in pieces, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from controller.request_bodies import read_body
from strandline.errors import BadJson, TooLarge

SCOPE: dict[str, Any] = {"type": "http", "headers": []}


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
        ([], 9, BadJson),
        ([part(b"all ", more=True)], 9, BadJson),
        ([{"type": "http.disconnect"}], 9, BadJson),
        ([part(b"all ", more=True), {"type": "http.disconnect"}], 9, BadJson),
    ],
)
def test_a_body_comes_whole_within_its_limit_and_its_deadline_or_is_refused(
    messages: list[dict[str, Any]], limit: int, expected: Any, slowly: bool
) -> None:
    async def read() -> bytes:
        return await read_body(SCOPE, receiving(*messages, slowly=slowly), limit, deadline_s=0.05)

    if isinstance(expected, bytes):
        assert asyncio.run(read()) == expected
    else:
        with pytest.raises(expected):
            asyncio.run(read())


def test_who_waits_for_a_body_can_be_cancelled() -> None:
    async def scene() -> None:
        reading = asyncio.ensure_future(read_body(SCOPE, receiving()))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(scene())
