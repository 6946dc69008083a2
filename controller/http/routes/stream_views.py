"""Views of streams for the reader groups of other controllers."""

from __future__ import annotations

from fastapi import Request, Response

from controller.groups.stream_views import StreamView
from controller.http.auth import check_streams
from controller.http.bodies import StreamQuestionsBody
from controller.http.declared import Routes, RuleScope
from controller.http.dependencies import Served, read_as
from controller.http.forwarding.peers import HOP
from controller.http.responses import answer
from strandline.access import Role
from strandline.core.note import check_position, check_time
from strandline.errors import BadRequest, InvalidNote, TooMany
from strandline.limits import STREAMS_PER_GROUP
from strandline.wire.stream_views import GroupPlaceView, SegmentView, StreamViewReply, StreamViewsReply

router = Routes("between controllers", prefix="/v1/cluster")


@router.declare(
    "POST /windows",
    "Look at streams for the reader group of another controller",
    Role.READER,
    RuleScope.EACH,
    takes=[StreamQuestionsBody],
    gives=[StreamViewsReply],
)
async def windows(request: Request, controller: Served) -> Response:
    if HOP.decode() not in request.headers:
        raise BadRequest(reason="only controllers make this call, with Strandline-Hop")
    body = await read_as(request, StreamQuestionsBody, InvalidNote)
    if len(body.streams) > STREAMS_PER_GROUP:
        raise TooMany(what="streams in a call", count=len(body.streams), limit=STREAMS_PER_GROUP)
    check_streams(request.scope, body.streams)
    for each in body.streams.values():
        check_position(each.read or {})
        check_position(each.bounds)
        for name, time in (("from_time", each.from_time), *each.goes_to.items()):
            if time is not None:
                check_time(name, time)
    views = await controller.groups.durable_views(body.streams)
    return answer(StreamViewsReply({stream: _reply(view) for stream, view in views.items()}))


def _reply(view: StreamView) -> StreamViewReply:
    place = view.place
    return StreamViewReply(
        identity=view.identity,
        segments=tuple([SegmentView(each.id, each.predecessors, each.final_offset) for each in view.graph]),
        open=view.graph.open,
        fence=view.fence,
        newest=view.newest,
        place=None if place is None else GroupPlaceView(place.position, place.windows, place.standing.value),
        passed=view.passed,
        start=None if view.start is None else dict(view.start.items()),
        bounds=view.bounds,
    )
