"""Marks and time windows."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query, Request, Response
from msgspec import UNSET

from controller.http.bodies import EvaluateBody, WindowBody
from controller.http.callers import controller_of, permit
from controller.http.dependencies import DEFAULT_LIMIT, Key, Limit, Seen, Served
from controller.http.responses import answer, around, mark_or_null
from controller.http.shapes import STREAM, JsonBody, sent, shaped_router, taking
from controller.http.versions import SEEN_HEADER, VERSIONED, catch_up, seen_by, versioned
from strandline.access import Role
from strandline.core.note import DEFAULT_KEY, check_key
from strandline.errors import InvalidNote
from strandline.limits import OFFSET_BOUND, TIME_BOUND_MS, WAIT_BOUND_MS
from strandline.wire.streams import (
    EvaluatedReply,
    MarksAt,
    MarksPage,
    TimeIndexPage,
    WindowReply,
    holder_reply,
    window_reply,
)

router = shaped_router("marks", prefix="/v1/streams/{stream}")
_BODY: Final = JsonBody(WindowBody, InvalidNote)


@router.post(
    "/time-window",
    summary="The time window at a position",
    dependencies=permit(Role.READER),
    responses=VERSIONED,
    openapi_extra=taking(_BODY.shape.__name__, parameters=[STREAM, SEEN_HEADER]),
)
async def time_window(request: Request) -> Annotated[Response, WindowReply]:
    controller = controller_of(request)
    asked = await _BODY.read(request)
    key = DEFAULT_KEY if asked.key is UNSET else asked.key
    meant = None if asked.identity is UNSET else asked.identity
    stream = request.path_params["stream"]
    await catch_up(controller, stream, seen_by(request))
    window, identity = await controller.reading.window_of(stream, key, asked.position, meant)
    return versioned(answer(window_reply(window, identity)), controller, stream)


@router.get(
    "/marks",
    summary="The marks after a seq, oldest first; waits for the next one if asked to",
    dependencies=permit(Role.READER),
    responses=VERSIONED,
)
async def list_marks(
    stream: str,
    controller: Served,
    response: Response,
    key: Key = DEFAULT_KEY,
    after: Annotated[int, Query(ge=0, lt=TIME_BOUND_MS)] = 0,
    limit: Limit = DEFAULT_LIMIT,
    wait_ms: Annotated[int, Query(ge=0, le=WAIT_BOUND_MS)] = 0,
    seen: Seen = None,
) -> MarksPage:
    await catch_up(controller, stream, seen)
    page = await controller.reading.marks(stream, key, after, limit, wait_ms)
    versioned(response, controller, stream)
    return page


@router.get(
    "/marks/at",
    summary="The marks around a time, and where reading from it begins; waits for all that is older if asked to",
    dependencies=permit(Role.READER),
    responses=VERSIONED,
)
async def marks_at(
    stream: str,
    controller: Served,
    response: Response,
    time: Annotated[int, Query(gt=-TIME_BOUND_MS, lt=TIME_BOUND_MS)],
    key: Key = DEFAULT_KEY,
    wait_ms: Annotated[int, Query(ge=0, le=WAIT_BOUND_MS)] = 0,
    allow_incomplete: Annotated[bool, Query(description="do not wait for writers that marks leave out")] = False,
    seen: Seen = None,
) -> MarksAt:
    await catch_up(controller, stream, seen)
    found = await controller.reading.at(stream, key, time, wait_ms, allow_incomplete=allow_incomplete)
    versioned(response, controller, stream)
    return around(found)


@router.post("/marks", summary="Make a mark now, if one is possible", dependencies=permit(Role.READER))
async def evaluate(
    stream: str, body: Annotated[EvaluateBody, sent(EvaluateBody, empty=EvaluateBody())], controller: Served
) -> EvaluatedReply:
    mark, holder, graph = await controller.streams.evaluate(stream, check_key(body.key))
    held_by = None if holder is None else holder_reply(holder)
    return EvaluatedReply(mark=mark_or_null(mark, graph), held_by=held_by)


@router.get(
    "/segments/{segment}/time-index", summary="Offset and time within a segment", dependencies=permit(Role.READER)
)
async def time_index(
    stream: str,
    segment: str,
    controller: Served,
    key: Key = DEFAULT_KEY,
    from_offset: Annotated[int, Query(ge=0, lt=OFFSET_BOUND)] = 0,
    token: Annotated[int | None, Query(ge=0, lt=TIME_BOUND_MS, description="that of the call before")] = None,
    limit: Limit = DEFAULT_LIMIT,
) -> TimeIndexPage:
    entries, token = await controller.indexing.time_index(stream, segment, key, from_offset, token, limit)
    return TimeIndexPage(tuple(entries), token)
