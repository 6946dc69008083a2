"""Marks and time windows."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response
from msgspec import UNSET

from controller.controller import Controller
from controller.http.bodies import EvaluateBody, WindowBody
from controller.http.declared import Routes
from controller.http.dependencies import DEFAULT_LIMIT, Key, Limit, Served, body_as, read_as
from controller.http.request_bodies import read_body, well_made
from controller.http.responses import answer, around, mark_or_null
from controller.http.versions import catch_up, versioned
from strandline.access import Role
from strandline.core.note import DEFAULT_KEY, check_key
from strandline.errors import InvalidNote
from strandline.limits import OFFSET_BOUND, TIME_BOUND_MS, WAIT_BOUND_MS
from strandline.wire.shapes import decoder_of
from strandline.wire.streams import (
    EvaluatedReply,
    MarksAt,
    MarksPage,
    TimeIndexPage,
    WindowReply,
    holder_reply,
    window_reply,
)

router = Routes("marks", prefix="/v1/streams/{stream}")
_window_body = decoder_of(WindowBody)


@router.declare(
    "POST /time-window",
    "The time window at a position",
    Role.READER,
    takes=[WindowBody],
    gives=[WindowReply],
    versioned=True,
    hot=True,
)
async def time_window(request: Request) -> Response:
    controller: Controller = request.app.state.controller
    body = await read_body(request.scope, request.receive, as_json=True)
    asked = well_made(_window_body, body, _count_names) or await body_as(request, WindowBody, body, InvalidNote)
    key = DEFAULT_KEY if asked.key is UNSET else asked.key
    meant = None if asked.identity is UNSET else asked.identity
    stream = request.path_params["stream"]
    await catch_up(controller, stream, request)
    window, identity = await controller.reading.window_of(stream, key, asked.position, meant)
    return versioned(answer(window_reply(window, identity)), controller, stream)


def _count_names(asked: WindowBody) -> int:
    return 1 + len(asked.position) + (asked.key is not UNSET) + (asked.identity is not UNSET)


@router.declare(
    "GET /marks",
    "The marks after a seq, oldest first; waits for the next one if asked to",
    Role.READER,
    gives=[MarksPage],
    versioned=True,
)
async def marks(
    stream: str,
    controller: Served,
    request: Request,
    key: Key = DEFAULT_KEY,
    after: Annotated[int, Query(ge=0, lt=TIME_BOUND_MS)] = 0,
    limit: Limit = DEFAULT_LIMIT,
    wait_ms: Annotated[int, Query(ge=0, le=WAIT_BOUND_MS)] = 0,
) -> Response:
    await catch_up(controller, stream, request)
    return versioned(answer(await controller.reading.marks(stream, key, after, limit, wait_ms)), controller, stream)


@router.declare(
    "GET /marks/at",
    "The marks around a time, and where reading from it begins; waits until everything older is there if asked to",
    Role.READER,
    gives=[MarksAt],
    versioned=True,
)
async def marks_at(
    stream: str,
    controller: Served,
    request: Request,
    time: Annotated[int, Query(gt=-TIME_BOUND_MS, lt=TIME_BOUND_MS)],
    key: Key = DEFAULT_KEY,
    wait_ms: Annotated[int, Query(ge=0, le=WAIT_BOUND_MS)] = 0,
    allow_incomplete: Annotated[bool, Query(description="do not wait for writers that marks leave out")] = False,
) -> Response:
    await catch_up(controller, stream, request)
    found = await controller.reading.at(stream, key, time, wait_ms, allow_incomplete=allow_incomplete)
    return versioned(answer(around(found)), controller, stream)


@router.declare(
    "POST /marks",
    "Make a mark now, if one is possible",
    Role.READER,
    takes=[EvaluateBody],
    needs_body=False,
    gives=[EvaluatedReply],
)
async def evaluate(stream: str, request: Request, controller: Served) -> Response:
    body = await read_as(request, EvaluateBody, empty=EvaluateBody())
    mark, holder, graph = await controller.streams.evaluate(stream, check_key(body.key))
    held_by = None if holder is None else holder_reply(holder)
    return answer(EvaluatedReply(mark=mark_or_null(mark, graph), held_by=held_by))


@router.declare(
    "GET /segments/{segment}/time-index", "Offset and time within a segment", Role.READER, gives=[TimeIndexPage]
)
async def time_index(
    stream: str,
    segment: str,
    controller: Served,
    key: Key = DEFAULT_KEY,
    from_offset: Annotated[int, Query(ge=0, lt=OFFSET_BOUND)] = 0,
    token: Annotated[int | None, Query(ge=0, lt=TIME_BOUND_MS, description="that of the call before")] = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Response:
    entries, token = await controller.indexing.time_index(stream, segment, key, from_offset, token, limit)
    return answer(TimeIndexPage(tuple(entries), token))
