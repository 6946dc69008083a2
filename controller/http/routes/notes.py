"""Notes, of one stream and of several.

A request with many notes is applied in portions, behind calls that came alone: a single note waits for one portion.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Request, Response

from controller.http.callers import Over, controller_of, permit
from controller.http.notes import OF_SEVERAL_STREAMS, take_notes
from controller.http.responses import JsonAnswer
from controller.http.shapes import STREAM, shaped_router, taking
from controller.http.versions import VERSIONED, versioned
from strandline.access import Role
from strandline.wire.streams import KeyedNoteReply, NoteReply, NoteResults

router = shaped_router("notes")


@router.post(
    "/v1/streams/{stream}/notes",
    summary="Note a time",
    dependencies=permit(Role.WRITER),
    response_description="An answer, or one result for each of many",
    responses=VERSIONED,
    openapi_extra=taking("Note", "Notes", parameters=[STREAM]),
)
async def note_times(request: Request) -> Annotated[Response, NoteReply | KeyedNoteReply | NoteResults]:
    stream = request.path_params["stream"]
    taken = JsonAnswer(await take_notes(stream, request))
    return versioned(taken, controller_of(request), stream)


@router.post(
    OF_SEVERAL_STREAMS,
    summary="Note times in several streams",
    dependencies=permit(Role.WRITER, Over.EACH),
    response_description="One result for each",
    openapi_extra=taking("StreamNotes"),
)
async def note_times_in_several_streams(request: Request) -> Annotated[Response, NoteResults]:
    return JsonAnswer(await take_notes(None, request))
