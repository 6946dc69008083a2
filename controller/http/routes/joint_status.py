"""What a controller tells the others that serve the same store: the status of the streams and groups that it owns.

These calls have the rights of the plain ones, and the caller's token. Names in a path say whose call it is, so that it
is passed on as every other call is; that for many streams and groups has them in its body, and is answered here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fastapi import Request, Response

from controller.http.auth import check_streams
from controller.http.bodies import PartBody
from controller.http.declared import Routes, RuleScope
from controller.http.dependencies import Granted, Served, read_as
from controller.status.parts import PartAsked, StatusPart
from controller.status.status_codec import encode_details, encode_part
from strandline.access import Grant, Role
from strandline.errors import Forbidden
from strandline.names import check_name

router = Routes("cluster", prefix="/v1/cluster")

MESSAGE_PACK: Final = "application/vnd.msgpack"
_SAYS: Final = "For controllers of the same release"


@router.declare(
    "POST /status",
    "Tell another controller the status of streams and reader groups",
    Role.READER,
    RuleScope.EACH,
    takes=[PartBody],
    media_type=MESSAGE_PACK,
    says=_SAYS,
)
async def status_of_many(request: Request, controller: Served, grant: Granted) -> Response:
    body = await read_as(request, PartBody)
    streams = tuple([check_name("stream", name) for name in body.streams])
    groups = tuple([check_name("group", name) for name in body.groups])
    check_streams(request.scope, streams)
    part = await controller.status.part(PartAsked(streams, groups))
    return _answer(await encode_part(_allowed(part, grant), controller.status.slices()))


@router.declare(
    "GET /streams/{stream}",
    "Tell another controller the status of a stream and its writers",
    Role.READER,
    media_type=MESSAGE_PACK,
    says=_SAYS,
)
async def status_of_stream(stream: str, controller: Served) -> Response:
    return _answer(encode_details(await controller.status.of_stream(stream)))


@router.declare(
    "GET /streams/{stream}/writers/{writer}",
    "Tell another controller the status of a writer",
    Role.READER,
    media_type=MESSAGE_PACK,
    says=_SAYS,
)
async def status_of_writer(stream: str, writer: str, controller: Served) -> Response:
    return _answer(encode_details(await controller.status.of_writer(stream, writer)))


@router.declare(
    "GET /reader-groups/{group}",
    "Tell another controller the status of a reader group",
    Role.READER,
    RuleScope.GROUP,
    media_type=MESSAGE_PACK,
    says=_SAYS,
)
async def status_of_group(group: str, controller: Served) -> Response:
    return _answer(encode_details(await controller.status.of_group(group)))


def _answer(body: bytes) -> Response:
    return Response(body, media_type=MESSAGE_PACK)


def _allowed(part: StatusPart, grant: Grant | None) -> StatusPart:
    """A part without groups that read a stream which the caller may not see."""
    if grant is None:
        return part
    hidden = {each.name for each in part.groups if not all(map(grant.allows, each.window.streams))}
    groups = [each for each in part.groups if each.name not in hidden]
    unread = {**part.unread_groups, **dict.fromkeys(hidden, Forbidden.code)}
    return replace(part, groups=groups, unread_groups=unread)
