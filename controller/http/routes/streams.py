"""Streams: create, list, describe, configure, scale, truncate, seal, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from fastapi import Response
from msgspec import UNSET

from controller.commit.journal import JOURNAL_NAMES, AdminAction, few
from controller.commit.store import after_commit
from controller.http.bodies import (
    ScaleBody,
    SealBody,
    SegmentBody,
    SettingsBody,
    StreamBody,
    Strict,
    TailBody,
    TruncateBody,
)
from controller.http.callers import CallerName, Calling, Over, permit
from controller.http.dependencies import (
    DEFAULT_LIMIT,
    THERE_ALREADY,
    After,
    Limit,
    Served,
    names_page,
)
from controller.http.shapes import sent, shaped_router
from controller.streams.loaded_stream import LoadedStream
from strandline.access import Role
from strandline.core.config import TimeDomain
from strandline.core.note import DEFAULT_KEY, Note
from strandline.core.segment import NewSegment, Segment
from strandline.errors import InvalidConfig, InvalidNote, InvalidScale
from strandline.wire.shapes import convert
from strandline.wire.status import StreamStatus
from strandline.wire.streams import (
    HeadReply,
    MarksPage,
    NoteReply,
    SegmentReply,
    SegmentsReply,
    StreamNames,
    StreamReply,
    holder_reply,
    note_reply,
    segment_reply,
    settings_by_name,
    wire_mark,
)

router = shaped_router("streams", prefix="/v1/streams")


@router.put(
    "/{stream}",
    summary="Create a stream",
    dependencies=permit(Role.ADMIN),
    status_code=201,
    response_description="It is new",
    responses=THERE_ALREADY,
)
async def create(
    stream: str,
    body: Annotated[StreamBody, sent(StreamBody, InvalidConfig)],
    controller: Served,
    by: CallerName,
    response: Response,
) -> StreamReply:
    created = await controller.streams.create(stream, _segments(body.segments), _settings(body), by)
    response.status_code = 201 if created else 200
    with after_commit():
        return describe(*await controller.status.of_now(stream))


@router.get("", summary="List the streams", dependencies=permit(Role.READER, Over.EACH))
async def list_names(
    controller: Served, caller: Calling, after: After = "", limit: Limit = DEFAULT_LIMIT
) -> StreamNames:
    async def read(after: str, count: int) -> dict[str, tuple[str]]:
        return {name: (name,) for name in await controller.streams.names(after, count)}

    names, following = await names_page(read, after, limit, caller.grant)
    return StreamNames(tuple(names), following)


@router.get("/{stream}", summary="Describe a stream, and its holder", dependencies=permit(Role.READER))
async def get(stream: str, controller: Served) -> StreamReply:
    return describe(*await controller.status.of_now(stream))


@router.patch("/{stream}", summary="Change a stream's settings", dependencies=permit(Role.ADMIN))
async def configure(
    stream: str, body: Annotated[SettingsBody, sent(SettingsBody, InvalidConfig)], controller: Served, by: CallerName
) -> StreamReply:
    settings = _settings(body)
    act = AdminAction("configured", by, settings)
    await controller.streams.change(stream, lambda each, now: each.configure(settings, now), act)
    with after_commit():
        return describe(*await controller.status.of_now(stream))


@router.delete(
    "/{stream}", summary="Delete a stream with everything about it", dependencies=permit(Role.ADMIN), status_code=204
)
async def delete(stream: str, controller: Served, by: CallerName) -> None:
    await controller.streams.delete(stream, by)
    with after_commit():
        await controller.groups.stream_deleted(stream, by)


@router.post("/{stream}/scale", summary="Seal segments and create their successors", dependencies=permit(Role.ADMIN))
async def scale(
    stream: str, body: Annotated[ScaleBody, sent(ScaleBody)], controller: Served, by: CallerName
) -> SegmentsReply:
    create = [_new_segment(each) for each in body.create]
    act = AdminAction("scaled", by, _scaling(body))
    await controller.streams.change(stream, lambda each, now: each.scale(body.seal, create, now), act)
    with after_commit():
        described = describe(*await controller.status.of_now(stream))
    return SegmentsReply(described.segments)


@router.delete(
    "/{stream}/segments/{segment}",
    summary="Drop a segment that the log does not have",
    dependencies=permit(Role.ADMIN),
    status_code=204,
)
async def drop_segment(stream: str, segment: str, controller: Served, by: CallerName) -> None:
    await controller.streams.drop_segment(stream, segment, by)
    controller.following.forget(stream)


@router.post("/{stream}/seal", summary="End a stream", dependencies=permit(Role.ADMIN))
async def seal(
    stream: str, body: Annotated[SealBody, sent(SealBody, empty=SealBody())], controller: Served, by: CallerName
) -> MarksPage:
    act = AdminAction("sealed", by, {"final": few(body.final)})
    return await controller.streams.change_marks(stream, lambda each, now: each.seal(body.final, now), act)


@router.post(
    "/{stream}/truncate", summary="Report where the log begins now in each segment", dependencies=permit(Role.ADMIN)
)
async def truncate(
    stream: str, body: Annotated[TruncateBody, sent(TruncateBody)], controller: Served, by: CallerName
) -> HeadReply:
    head, graph = await controller.retention.truncate(stream, body.head, by)
    return HeadReply(graph.frontier(head))


@router.post(
    "/{stream}/tail",
    summary="Report the end offset of every segment (ingestion domain)",
    dependencies=permit(Role.WRITER),
)
async def tail(
    stream: str, body: Annotated[TailBody, sent(TailBody, InvalidNote)], controller: Served, caller: Calling
) -> NoteReply:
    note = Note(writer=body.reporter, times={DEFAULT_KEY: body.time}, position=body.position, epoch=body.epoch)
    caller.check_writer(stream, note.writer)
    noted = await controller.notes.take(stream, note, tail=True, by=caller.name)
    reply = note_reply(noted.answer, noted.graph, noted.held_by, noted.ahead_ms, keyed=False)
    assert isinstance(reply, NoteReply)
    return reply


def describe(loaded: LoadedStream, status: StreamStatus) -> StreamReply:
    """The description of a stream. The default key has a holder here even if no writer uses it."""
    stream = loaded.stream
    unused = None if DEFAULT_KEY in status.keys else stream.held_by(DEFAULT_KEY, status.seen_at)
    newest = {key: chain.last for key, chain in loaded.chains.items() if key in status.keys}
    reached = status.keys[DEFAULT_KEY].time if DEFAULT_KEY in status.keys else None
    return StreamReply(
        stream=status.stream,
        **settings_by_name(stream.config),
        identity=loaded.origin.identity,
        segments=tuple(_segment_reply(loaded, segment, reached) for segment in stream.graph),
        open=stream.graph.open,
        sealed=status.sealed,
        head=stream.graph.frontier(stream.head),
        created_at=loaded.origin.created_at,
        latest_marks={key: wire_mark(mark, stream.graph) for key, mark in sorted(newest.items()) if mark is not None},
        writers=status.writers,
        held_by={DEFAULT_KEY: None if unused is None else holder_reply(unused), **status.held_by},
    )


def _segment_reply(loaded: LoadedStream, segment: Segment, reached: int | None) -> SegmentReply:
    """The description of a segment of a stream that has reached a time."""
    is_young = segment.predecessors and loaded.stream.config.time_domain is TimeDomain.INGESTION
    known = [time for time in (reached, segment.created_at if is_young else None) if time is not None]
    return segment_reply(segment, loaded.noted_at.get(segment.id), None if segment.sealed else max(known, default=None))


def _scaling(body: ScaleBody) -> dict[str, Any]:
    """The journal's details of a scaling, which may have very many segments."""
    return {"seal": few(body.seal), "create": [each.id for each in body.create[:JOURNAL_NAMES]]}


def _settings(body: Strict) -> dict[str, Any]:
    """The given settings. The configuration refuses a list or an object where a plain value belongs."""
    given = {name: getattr(body, name) for name in body.__struct_fields__ if name != "segments"}
    return {name: value for name, value in given.items() if value is not UNSET}


def _segments(value: Any) -> int | Sequence[NewSegment] | None:  # what the body has
    """How many, which ranges, or None for an open stream."""
    if value == "open":
        return None
    if type(value) is int:
        return value
    wanted = 'how many, "open", or a list of {"id", "low", "high"}'
    if type(value) is not list:
        raise InvalidConfig(name="segments", value=value, wanted=wanted)
    try:
        bodies = convert(value, list[SegmentBody])
    except msgspec.ValidationError as error:
        raise InvalidConfig(name="segments", value=value, wanted=f"{wanted} ({error})") from None
    for each in bodies:
        if each.predecessors is not None:
            raise InvalidScale(segment=each.id, reason="a stream's first segments have no predecessors")
    return [_new_segment(each) for each in bodies]


def _new_segment(body: SegmentBody) -> NewSegment:
    predecessors = None if body.predecessors is None else tuple(body.predecessors)
    return NewSegment(id=body.id, low=body.low, high=body.high, predecessors=predecessors)
