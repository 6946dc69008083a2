"""What the middleware asks about each call: whether another controller owns what it is about, which then gets it.

    call ──► route ──► Serve      it is answered here
                       Hold       asked again when something has changed
                       PassOn     sent to its owner, once; the answer goes back as it comes
                       Refuse     503

A call that another controller passed on is answered here or refused: it is never passed on again.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from msgspec import UNSET
from msgspec.structs import replace
from starlette.types import Message, Receive, Scope, Send

from controller.cluster.owned_shards import OwnedShard
from controller.cluster.records import ControllerRow
from controller.controller import Controller
from controller.groups.stream_views import StreamViews
from controller.http.bodies import NoteBody
from controller.http.declared import DeclaredRoute, check_parameters
from controller.http.forwarding.directory import Directory
from controller.http.forwarding.note_batches import NoteBatches
from controller.http.forwarding.note_queue import NoteQueue, Passed
from controller.http.forwarding.others import OtherControllers
from controller.http.forwarding.owners import Owners
from controller.http.forwarding.peers import (
    FOR,
    HOP,
    NOT_ITS_OWN,
    ONE_HOP,
    Headers,
    NoAnswer,
    NotTaken,
    PassedCall,
    PeerAnswer,
    Peers,
    Stopping,
    problem_head,
)
from controller.http.forwarding.stream_views import TOKEN, StreamsOfAll
from controller.http.forwarding.subjects import Subject, Subjects
from controller.http.notes import OF_SEVERAL_STREAMS, read_well_made
from controller.http.problems import RETRY_AFTER_S
from controller.http.request_bodies import SMALL_BODY_BYTES, read_body, until_left
from controller.http.request_headers import sent_headers
from controller.http.responses import EVENTS, JSON, event_of_end, headers_of, to_json
from controller.limits import Limits
from controller.records.operator_log import log_event
from strandline.errors import BadRequest, NotOwner, OwnerUndecided
from strandline.wire.problems import MEDIA_TYPE

OWNER: Final = b"strandline-owner"
FENCE: Final = b"strandline-fence"
_TAKEN: Final = "strandline.taken"  # in a scope: the subject that this controller owns, and its tenure
# What the owner reads of a request; the rest is of the connection, or was checked by the controller that was called.
_SENT_ON: Final = frozenset({b"accept", b"authorization", b"content-type", b"last-event-id", FENCE, b"user-agent"})
_OF_THE_CONNECTION: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_PASSED_ON: Final = "strandline.passed_on"  # in a scope
_END: Final = event_of_end("stopping")
_DIGITS: Final = 19  # of a number below 2**63

Value = TypeVar("Value")


@dataclass(slots=True)
class _Call:
    """A call, and how it is answered."""

    controller: Controller
    scope: Scope
    receive: Receive
    send: Send
    request_id: bytes
    started: bool = False  # the answer
    end: bytes | None = None  # of an answer that has begun, if it may end at this moment

    @property
    def token(self) -> bytes | None:
        return sent_headers(self.scope).get(b"authorization")

    async def begin(self, status: int, headers: Headers) -> None:
        self.started = True
        self.controller.counts.responses[status] += 1
        await self.send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def reply(self, status: int, body: bytes, time: int, more: Headers = ()) -> None:
        """Sends a whole answer: JSON, or with a status other than 200 a problem."""
        media_type = JSON if status == 200 else MEDIA_TYPE.encode()
        await self.begin(status, tuple(headers_of(media_type, len(body), time, self.request_id, more)))
        await self.send({"type": "http.response.body", "body": body})


class Forwarding:
    """Stands between the middleware and the routes where several controllers serve one store."""

    def __init__(
        self,
        directory: Directory,
        routes: Iterable[DeclaredRoute],
        *,
        name: str,
        tls: ssl.SSLContext | None,
        limits: Limits,
    ) -> None:
        """`name` is that of this controller. `tls` says whom to trust at the addresses of other controllers, None: as
        this machine does."""
        self._subjects = Subjects(routes)
        self._owners = Owners(directory)
        self.peers = Peers(tls, limits)
        self._queue = NoteQueue(self.peers, limits.passed_notes)
        self._batches = NoteBatches(self._owners, self.peers)
        self.others = OtherControllers(self._owners, self.peers, name)

    @property
    def not_owned(self) -> int:
        """How often another controller passed on what this one does not own."""
        return self._owners.not_owned

    def streams_of_all(self, own: StreamViews) -> StreamsOfAll:
        """Views of the streams of all controllers, from those of this one."""
        return StreamsOfAll(own, self._owners, self.peers)

    async def close(self) -> None:
        await self._queue.close()
        await self.peers.close()

    async def answer(
        self, controller: Controller, scope: Scope, receive: Receive, send: Send, request_id: bytes
    ) -> Receive | None:
        """Answers a call if it is another controller's. Else returns where its body comes from.

        Raises what is to be answered as a problem. Once the answer has begun it raises nothing: an answer that breaks
        off ends without its last piece.
        """
        passed_on_to = _passed_on_to(scope)
        if passed_on_to not in (None, self._owners.directory.me):
            self._owners.not_owned += 1
            raise NotOwner(reason="the call was passed on to a controller with another id")
        scope[_PASSED_ON] = passed_on_to is not None
        call = _Call(controller, scope, receive, send, request_id)
        TOKEN.set(call.token)
        if scope["path"] == OF_SEVERAL_STREAMS and scope["method"] == "POST":
            check_parameters(scope, ())
            batch = await self._batches.take(controller, scope, receive, call.token, passed_on_to)
            await call.reply(batch.status, batch.body, batch.time, _when_to_retry(batch.status))
            return None
        subject = self._subjects.of(scope["method"], scope["path"])
        if subject is None:
            return receive
        fence = _seen_by_caller(scope)
        if await self._owners.find(subject, passed_on_to, fence) is None:
            self._take(scope, subject)
            return receive
        body = await read_body(scope, receive, as_json=True)
        note = _note_in(scope, subject, body)
        if note is None:
            done = await _while_here(receive, self._pass_on(call, subject, body, fence))
        else:
            done = await self._pass_note(call, subject, note, fence)
        if done:
            return None
        self._take(scope, subject)
        return _replayed(body, receive)

    def _take(self, scope: Scope, subject: Subject) -> None:
        scope[_TAKEN] = subject, self._owners.directory.tenure(subject.kind, subject.name)

    def answer_headers(self, scope: Scope, now: int) -> tuple[int, Headers]:
        """The clock that an answer of this controller tells at a moment of its own, and the headers that name the
        owner of the stream or group. The fence is that of the moment, since a handler may have found what it tells
        later than the call was taken."""
        taken: tuple[Subject, OwnedShard | None] | None = scope.get(_TAKEN)
        if taken is None:
            return now, ()
        directory, (subject, before) = self._owners.directory, taken
        tenure = directory.tenure(subject.kind, subject.name) or before
        if tenure is not None:
            now = max(now, tenure.clock_floor)
        fence = () if tenure is None else ((FENCE, b"%d" % tenure.fence),)
        return now, (*fence, *_owner_at(directory.client_address))

    async def _pass_note(self, call: _Call, subject: Subject, note: NoteBody, fence: int) -> bool:
        """Passes a note on, together with others; False where this controller has become the owner."""
        whose, encoded = (subject.name, str(note.writer)), to_json(replace(note, stream=subject.name))

        async def attempt(owner: ControllerRow) -> tuple[Passed, int]:
            floor = self._owners.directory.clock_floor(subject.kind, subject.name)
            passed = await self._queue.send(owner, call.token, whose, encoded)
            if problem_head(passed.bodies[0]).code == NotOwner.code:
                raise NotTaken(NOT_ITS_OWN)
            return passed, floor

        try:
            taken = await self._owners.keep_up(subject, attempt, fence)
        except NoAnswer as error:
            raise OwnerUndecided(**subject.named, reason=str(error)) from None
        if taken is None:
            return False
        passed, floor = taken
        body = bytes(passed.bodies[0])
        status = problem_head(body).status or passed.status
        asked = tuple((name, value) for name, value in passed.headers if name == b"www-authenticate")
        time = call.controller.clock.now() if passed.time is None else passed.time
        time = max(time, floor)  # notes of several streams come back with the least of their times
        await call.reply(status, body, time, (*asked, *_when_to_retry(status), *_owner_at(passed.client_address)))
        return True

    async def _pass_on(self, call: _Call, subject: Subject, body: bytes, fence: int) -> bool:
        """Passes a call on and sends back what its owner answers; False where this controller has become the owner."""
        passed = self._passed(call, body)

        async def attempt(owner: ControllerRow) -> bool:
            async with self.peers.ask(owner, passed) as answer:
                await _send_back(call, answer)
            return True

        try:
            return await self._owners.keep_up(subject, attempt, fence) is not None
        except Exception as error:
            if not call.started:
                if isinstance(error, NoAnswer):
                    raise OwnerUndecided(**subject.named, reason=str(error)) from None
                raise
            if isinstance(error, Stopping) and call.end is not None:
                await call.send({"type": "http.response.body", "body": call.end})
                return True
            log_event("passed_answer_broke_off", logging.WARNING, error=error, path=call.scope["path"])
            return True

    def _passed(self, call: _Call, body: bytes) -> PassedCall:
        scope = call.scope
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        headers = [(name, value) for name, value in scope["headers"] if name in _SENT_ON]
        sent = (*headers, (b"x-request-id", call.request_id))
        return PassedCall(scope["method"], target, sent, body, self._subjects.wait_ms(scope))


async def _send_back(call: _Call, answer: PeerAnswer) -> None:
    """Sends an answer as it comes: a head, and each piece of the body."""
    headers = tuple((name, value) for name, value in answer.headers if name not in _OF_THE_CONNECTION)
    begun = answer.pieces()
    await call.begin(answer.status, headers)
    has_events = dict(headers).get(b"content-type", b"").startswith(EVENTS)
    async for piece in begun:
        await call.send({"type": "http.response.body", "body": piece, "more_body": True})
        if has_events:  # its client drops a last event that is not whole
            call.end = _END if piece.endswith(b"\n\n") else b""
    await call.send({"type": "http.response.body", "body": b""})


async def _while_here(receive: Receive, work: Coroutine[Any, Any, bool]) -> bool:
    """Does the work, which ends when the client leaves."""
    left, working = asyncio.ensure_future(until_left(receive)), asyncio.ensure_future(work)
    try:
        await asyncio.wait([left, working], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else True
    finally:
        for task in (left, working):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await left
        if not working.done():
            with suppress(asyncio.CancelledError):
                await working


def was_passed_on(scope: Scope) -> bool:
    """Whether another controller passed a call on to this one."""
    return bool(scope.get(_PASSED_ON))


def _passed_on_to(scope: Scope) -> int | None:
    """The id of the controller that another one passed this call on to; None for a call of a client. Raises BadRequest
    for a hop that no controller makes."""
    given = [(name, value) for name, value in scope["headers"] if name in (HOP, FOR)]
    if not given:
        return None
    values = dict(given)
    number = values.get(FOR, b"")
    if len(given) != 2 or values.get(HOP) != ONE_HOP or not number.isdigit() or len(number) > _DIGITS:
        raise BadRequest(reason="Strandline-Hop and Strandline-For are not those of a controller that passes a call on")
    return int(number)


def _seen_by_caller(scope: Scope) -> int:
    """The fence that a caller sends back; 0 without one. Raises BadRequest for what no controller told."""
    given = [value for name, value in scope["headers"] if name == FENCE]
    if not given:
        return 0
    if len(given) != 1 or not given[0].isdigit() or len(given[0]) > _DIGITS:
        raise BadRequest(reason="Strandline-Fence is not the number of an earlier answer")
    return int(given[0])


def _note_in(scope: Scope, subject: Subject, body: bytes) -> NoteBody | None:
    """The one small note that a call is about, which can go together with others; None for every other call."""
    is_note = scope["method"] == "POST" and scope["path"] == f"/v1/streams/{subject.name}/notes"
    if not is_note or len(body) > SMALL_BODY_BYTES or scope["query_string"]:
        return None
    note = read_well_made(body)
    return note if note is not None and note.notes is UNSET and note.stream is UNSET else None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read already, and then what comes after it."""
    messages: Iterator[Message] = iter(({"type": "http.request", "body": body, "more_body": False},))

    async def receive_again() -> Message:
        return next(messages, None) or await receive()

    return receive_again


def _when_to_retry(status: int) -> Headers:
    return ((b"retry-after", b"%d" % RETRY_AFTER_S),) if status == 503 else ()


def _owner_at(client_address: str | None) -> Headers:
    return () if client_address is None else ((OWNER, client_address.encode("ascii")),)
