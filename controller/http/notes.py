"""Reads the bodies of notes, and makes the answers. `routes/notes.py` has the calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET
from starlette.requests import Request

from controller.http.bodies import NoteBody, RawNotesBody
from controller.http.body_errors import body_error
from controller.http.callers import Caller, caller_of, controller_of
from controller.http.problems import log_denied
from controller.http.request_bodies import SMALL_BODY_BYTES, BodiesRead, decode, read_call
from controller.http.responses import to_json
from controller.streams.notes import Noted, Notes, as_result
from strandline.access import EVERYTHING, Grant, Role
from strandline.core.note import DEFAULT_KEY, NO_TIMES, Note
from strandline.errors import Forbidden, InvalidNote, Refused, StrandlineError, TooMany
from strandline.limits import NOTES_PER_REQUEST
from strandline.wire.shapes import decoder_of
from strandline.wire.streams import encoded_result, note_reply

_body = decoder_of(NoteBody)
_raw = decoder_of(RawNotesBody)
OF_SEVERAL_STREAMS: Final = "/v1/notes"


async def take_notes(stream: str | None, request: Request) -> bytes:
    """The answer to one note, or to many. `stream` is None if each note names its own."""
    controller, caller = controller_of(request), caller_of(request)
    notes = controller.notes
    given: NoteBody | list[NoteBody | StrandlineError]
    try:
        body = await read_call(request)
        if len(body) > SMALL_BODY_BYTES:
            notes.check_room(len(body))
        try:
            given = decode(_body.decode, body)
        except msgspec.ValidationError as error:
            bodies: BodiesRead = request.app.state.bodies
            given = await bodies.read_closely(partial(_each_by_itself, error=error), body)
        if isinstance(given, NoteBody) and given.notes is not UNSET:
            given = checked(given, given.notes)
        if isinstance(given, list):
            with notes.room_for(len(body)):
                return b'{"results":[%s]}' % b",".join(await take_many(notes, given, stream, request))
        if stream is None:
            raise no_list()
        note = note_of(given, stream)
    except Refused as error:
        if stream is not None:
            controller.streams.journal_refusal(stream, error, caller.name)
        raise
    caller.check_writer(stream, note.writer)
    noted = await notes.take(stream, note, by=caller.name)
    return to_json(note_reply(noted.answer, noted.graph, noted.held_by, noted.ahead_ms, keyed=given.times is not UNSET))


def checked(given: NoteBody, many: list[NoteBody]) -> list[NoteBody | StrandlineError]:
    """The notes in a body; raises TooMany, or InvalidNote if the body has other fields."""
    if given != NoteBody(notes=many):
        raise InvalidNote(name="notes", value="…", wanted="alone in its body, or left out")
    _check_count(len(many))
    return list(many)


def no_list() -> InvalidNote:
    """What is wrong with one note where the path has no stream."""
    return InvalidNote(name="notes", value=None, wanted="a list of notes, each with its stream")


async def take_many(
    notes: Notes, given: list[NoteBody | StrandlineError], stream: str | None, request: Request
) -> list[bytes]:
    """The answers to many notes. `stream` is None if each names its own, which the caller's token has to allow. Logs
    the first note that the token does not allow."""
    caller = caller_of(request)
    grant = caller.grant
    everything = grant is None or (grant.allows_every_stream and grant.writers == EVERYTHING)
    denied = False

    def note_at(place: int) -> tuple[str, Note | StrandlineError]:
        nonlocal denied
        note = _checked(given[place], stream)
        if grant is not None and not everything:
            note = _allowed(note, caller, grant)
            if isinstance(note[1], Forbidden) and not denied:
                denied = True
                log_denied(request, note[1])
        return note

    def encoded(first: int, results: Sequence[Noted | StrandlineError]) -> list[bytes]:
        return _encoded(given[first : first + len(results)], results)

    return await notes.take_all(len(given), note_at, encoded, encoded_result, caller.name)


def _encoded(given: Sequence[NoteBody | StrandlineError], results: Sequence[Noted | StrandlineError]) -> list[bytes]:
    """The results as JSON. Most answers to the notes of a request are equal, and each is encoded once."""
    known: dict[tuple[bool, int | None, int], bytes] = {}
    parts = []
    for each, result in zip(given, results, strict=True):
        if isinstance(result, StrandlineError):
            parts.append(encoded_result(result))
            continue
        answer = result.answer
        keyed = isinstance(each, NoteBody) and each.times is not UNSET
        what = answer.late, answer.floor, id(result.held_by)  # all that is in one that is like others
        alike = not (keyed or answer.marks or result.ahead_ms)
        part = known.get(what) if alike else None
        if part is None:
            part = encoded_result(note_reply(result.answer, result.graph, result.held_by, result.ahead_ms, keyed=keyed))
            if alike:
                known[what] = part
        parts.append(part)
    return parts


def _checked(given: NoteBody | StrandlineError, stream: str | None) -> tuple[str, Note | StrandlineError]:
    """A note, or its error, with its stream, which is in the path or in the note itself."""
    if isinstance(given, StrandlineError):
        return stream or "", given
    named = stream or given.stream or ""
    try:
        return named, note_of(given, stream)
    except StrandlineError as error:
        return named, as_result(error)


def _allowed(
    checked_note: tuple[str, Note | StrandlineError], caller: Caller, grant: Grant
) -> tuple[str, Note | StrandlineError]:
    """A note, or the refusal if the caller's token does not allow it, without a stream if it does not allow that."""
    stream, note = checked_note
    if stream and not grant.allows(stream):
        return "", caller.refused(grant, Role.WRITER, stream)
    if isinstance(note, StrandlineError):
        return checked_note
    if not grant.speaks_for(note.writer):
        return stream, caller.not_speaking_for(grant, stream, note.writer)
    return checked_note


def _each_by_itself(body: bytes, error: msgspec.ValidationError) -> list[NoteBody | StrandlineError]:
    """Many notes, some of them malformed. Raises the error of a single note, or of the body."""
    try:
        raw = decode(_raw.decode, body).notes
    except msgspec.ValidationError:
        raise body_error(InvalidNote, error, body) from None
    _check_count(len(raw))
    found: list[NoteBody | StrandlineError] = []
    for each in raw:
        try:
            found.append(decode(_body.decode, bytes(each)))
        except msgspec.ValidationError as wrong:
            found.append(body_error(InvalidNote, wrong, bytes(each)))
    return found


def _check_count(count: int) -> None:
    if count > NOTES_PER_REQUEST:
        raise TooMany(what="notes in a request", count=count, limit=NOTES_PER_REQUEST)


def note_of(given: NoteBody, stream: str | None) -> Note:
    """The note; raises InvalidNote for fields that are missing or do not belong together. `stream` is from the path, or
    None if the note has to name its own."""
    if stream is not None and given.stream is not UNSET:
        raise InvalidNote(name="stream", value=given.stream, wanted="left out: the path has it")
    if stream is None and given.stream is UNSET:
        raise InvalidNote(name="stream", value=None, wanted="the name of the note's stream")
    if given.notes is not UNSET:
        raise InvalidNote(name="notes", value="…", wanted="left out: a note has none within")
    writer, position, time, newest = given.writer, given.position, given.time, given.newest
    if writer is UNSET:
        raise InvalidNote(name="writer", value=None, wanted="the writer's name")
    if position is UNSET:
        raise InvalidNote(name="position", value=None, wanted="an offset for each segment, {} for none yet")
    keyed = time is UNSET
    if time is not UNSET and given.times is UNSET:
        times: Mapping[str, int] = {DEFAULT_KEY: time}
    elif given.times is UNSET:
        raise InvalidNote(name="time", value=None, wanted="whole milliseconds, or times by key in its place")
    elif keyed:
        times = given.times
    else:
        raise InvalidNote(name="times", value=given.times, wanted="left out where there is a time")
    latest: Mapping[str, int] = NO_TIMES
    if isinstance(newest, int):
        if keyed:
            raise InvalidNote(name="newest", value=newest, wanted="by key, as times are")
        latest = {DEFAULT_KEY: newest}
    elif isinstance(newest, dict):
        if not keyed:
            raise InvalidNote(name="newest", value=newest, wanted="one number, as the time is")
        latest = newest
    epoch = None if given.epoch is UNSET else given.epoch
    return Note(writer=writer, times=times, position=position, epoch=epoch, newest=latest)
