"""The other controllers, as the status and the pages of the dashboard ask them: with the calls that everybody has."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from controller.cluster.actions import Hold
from controller.cluster.records import ControllerRow, Kind
from controller.http.forwarding.owners import Owners
from controller.http.forwarding.peers import Headers, NoAnswer, NotTaken, PassedCall, PeerAnswer, Peers
from controller.http.forwarding.stream_views import TOKEN
from controller.http.forwarding.subjects import Subject
from controller.records.operator_log import REQUEST_ID
from controller.status.parts import Nearby, PartAsked, Serving
from controller.status.status_view import Viewer
from strandline.errors import NotOwner, OwnerUndecided
from strandline.limits import PAGE_ENTRIES
from strandline.wire.problems import from_problem
from strandline.wire.shapes import read
from strandline.wire.status import StatusPart

PAGE_MS: Final = 3_000  # how long the owner of a stream or group may take to draw its page


class OtherControllers:
    """Asks the owners of streams and groups, with the viewer's token; see `controller.status.status_view.Others`."""

    def __init__(self, owners: Owners, peers: Peers, own_name: str) -> None:
        self._owners = owners
        self._peers = peers
        self._own_name = own_name

    def serving(self, kind: Kind, name: str) -> Serving:
        try:
            found = self._owners.known(Subject(kind, name), None)
        except NotOwner:
            return Nearby.NOBODY
        if found is None:
            return Nearby.HERE
        return Nearby.NOBODY if isinstance(found, Hold) else found

    def name_of(self, controller: Serving) -> str | None:
        if isinstance(controller, ControllerRow):
            return controller.name
        return self._own_name if controller is Nearby.HERE else None

    def speak_for(self, viewer: Viewer) -> None:
        TOKEN.set(viewer.authorization)

    async def part(self, controller: ControllerRow, asked: PartAsked, viewer: Viewer) -> StatusPart:
        named = "".join([f"&stream={name}" for name in asked.streams] + [f"&group={name}" for name in asked.groups])
        call = PassedCall.of_ours("GET", f"/v1/status?limit={PAGE_ENTRIES}{named}", viewer.authorization)
        try:
            async with self._peers.ask(controller, call) as answer:
                return read(StatusPart, await _body_of(answer))
        except NotTaken as error:
            raise NotOwner(reason=str(error)) from None
        except (NoAnswer, ValueError) as error:
            raise OwnerUndecided(reason=str(error)) from None

    async def page(self, subject: Subject, target: bytes, sent: Headers) -> tuple[Headers, bytes] | None:
        """The page of a stream or group as its owner draws it, with its headers; None if that is this controller.
        Raises the problem that the owner answers, or NotOwner if none does in time."""
        call = PassedCall("GET", target, (*sent, (b"x-request-id", REQUEST_ID.get() or b"")), b"")

        async def attempt(owner: ControllerRow) -> tuple[Headers, bytes]:
            async with self._peers.ask(owner, call) as answer:
                return answer.headers, await _body_of(answer)

        try:
            async with asyncio.timeout(PAGE_MS / 1000):
                return await self._owners.keep_up(subject, attempt)
        except (NoAnswer, TimeoutError) as error:
            reason = str(error) or f"its controller has not answered for {PAGE_MS} ms"
            raise NotOwner(**subject.named, reason=reason) from None


async def _body_of(answer: PeerAnswer) -> bytes:
    """The body of a success. Raises the problem that was answered."""
    body = await answer.whole()
    if answer.status < 300:
        return body
    try:
        problem = msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise NoAnswer(f"its answer, with status {answer.status}, was not understood") from None
    raise from_problem(problem)
