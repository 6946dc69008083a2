"""Notes, of one stream and of several.

A request with many notes is worked through in pieces, in turns with other requests: a single note waits for one piece.
The smallest request first would let a large one wait for ever.
"""

from __future__ import annotations

from fastapi import Request, Response

from controller.http.declared import Routes, RuleScope
from controller.http.notes import OF_SEVERAL_STREAMS, take_notes
from controller.http.responses import JsonAnswer
from controller.http.versions import versioned
from strandline.access import Role
from strandline.wire.streams import KeyedNoteReply, NoteReply, NoteResults

router = Routes("notes")


@router.declare(
    "POST /v1/streams/{stream}/notes",
    "Note a time",
    Role.WRITER,
    takes=["Note", "Notes"],
    gives=[NoteReply, KeyedNoteReply, NoteResults],
    says="An answer, or one result for each of many",
    hot=True,
)
async def notes(request: Request) -> Response:
    stream = request.path_params["stream"]
    taken = JsonAnswer(await take_notes(stream, request))
    return versioned(taken, request.app.state.controller, stream)


@router.declare(
    f"POST {OF_SEVERAL_STREAMS}",
    "Note times in several streams",
    Role.WRITER,
    RuleScope.EACH,
    takes=["StreamNotes"],
    gives=[NoteResults],
    says="One result for each",
    hot=True,
)
async def notes_of_several_streams(request: Request) -> Response:
    return JsonAnswer(await take_notes(None, request))
