"""Marks as server-sent events.

id: 7                                          Last-Event-ID, or ?after=7, goes on behind it
event: mark
data: {"seq": 7, "key": "", "time": …}

event: resting                                 an ingestion stream at rest: only time has moved
data: {"resting": 1700000000000}

event: end                                     no more events follow: "sealed", "stopping", or the code of a problem
data: {"reason": "sealed"}
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final, assert_never

from fastapi import Header, Response
from starlette.types import Receive, Scope, Send

from controller.http.callers import CallerName, permit
from controller.http.dependencies import Key, Seq, Served
from controller.http.request_bodies import until_left
from controller.http.responses import EVENTS, event_of_end, to_json
from controller.http.shapes import shaped_router
from controller.lifecycle import Controller
from controller.streams.mark_feed import FeedEvent, FeedOver, NewMarks, Resting, StillHere
from strandline.access import Role
from strandline.core.mark import Mark
from strandline.core.note import DEFAULT_KEY
from strandline.core.segment import SegmentGraph
from strandline.errors import InvalidParameter, StrandlineError
from strandline.limits import TIME_BOUND_MS
from strandline.wire.streams import wire_mark

EVENT_SEND_DEADLINE_S: Final = 30  # a client that reads nothing for so long is disconnected

router = shaped_router("marks", prefix="/v1/streams/{stream}")

MEDIA_TYPE = EVENTS.decode()
OVER: Final[dict[int | str, dict[str, Any]]] = {
    204: {"description": "The stream is sealed, and has no marks after that seq"}
}
STREAMED: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}}


@router.get(
    "/marks/live",
    summary="The marks after a seq, then each as it is made",
    dependencies=permit(Role.READER),
    response_description="Server-sent events, without end",
    response_class=Response,
    responses={**STREAMED, **OVER},
)
async def live_marks(
    stream: str,
    controller: Served,
    caller: CallerName,
    key: Key = DEFAULT_KEY,
    after: Seq = 0,
    last_event_id: Annotated[str | None, Header(description="the id of the last event that was received")] = None,
) -> Response:
    if last_event_id:
        after = _seq(last_event_id)
    if not await controller.following.check(stream, key, after):
        return Response(status_code=204)  # a browser does not connect again after this status
    controller.following.enter(caller)
    return _Events(controller, caller, stream, key, after)


class _Events(Response):
    """Sends events until the stream is sealed, the controller stops, or the client leaves.

    FastAPI's own event streams would encode a mark again for each of a thousand readers, and leave one that reads
    nothing for as long as it likes.
    """

    def __init__(self, controller: Controller, caller: str | None, stream: str, key: str, after: int) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._controller = controller
        self._caller = caller
        self._events = controller.following.events(stream, key, after, encode)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(until_left(receive))
        sending = asyncio.ensure_future(self._send(send))
        try:
            await asyncio.wait([gone, sending], return_when="FIRST_COMPLETED")
        finally:
            self._controller.following.leave(self._caller)
            gone.cancel()
            sending.cancel()
            await asyncio.wait([sending])
        error = None if sending.cancelled() else sending.exception()
        if error is not None and not isinstance(error, TimeoutError | OSError):  # who reads no more gets no more
            raise error

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(_framed(self._events)) as frames:
            async for frame in frames:
                async with asyncio.timeout(EVENT_SEND_DEADLINE_S):
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _framed(events: AsyncGenerator[FeedEvent, None]) -> AsyncGenerator[bytes, None]:
    yield b": the marks of the store, then live\n\n"
    try:
        async with aclosing(events):
            async for event in events:
                match event:
                    case NewMarks(encoded):
                        yield b"".join(encoded)
                    case Resting(time):
                        yield b'event: resting\ndata: {"resting":%d}\n\n' % time
                    case StillHere():
                        yield b": still here\n\n"
                    case FeedOver(reason):
                        yield event_of_end(reason)
                    case _:
                        assert_never(event)
    except StrandlineError as error:
        yield event_of_end(error.code)


def encode(mark: Mark, graph: SegmentGraph) -> bytes:
    """A mark as an event."""
    return b"id: %d\nevent: mark\ndata: %s\n\n" % (mark.seq, to_json(wire_mark(mark, graph)))


def _seq(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 16 or int(text) >= TIME_BOUND_MS:
        raise InvalidParameter(name="Last-Event-ID", value=text, wanted="the id of an event, which is a mark's seq")
    return int(text)
