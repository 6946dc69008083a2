"""The other controllers, as the status asks them."""

from __future__ import annotations

from typing import Final

import msgspec

from controller.cluster.actions import Hold
from controller.cluster.records import ControllerRow, Kind
from controller.http.forwarding.owners import Owners
from controller.http.forwarding.peers import NoAnswer, NotTaken, PassedCall, PeerAnswer, Peers
from controller.http.forwarding.stream_views import TOKEN
from controller.http.forwarding.subjects import Subject
from controller.status.parts import Nearby, PartAsked, Serving
from controller.status.status_view import Viewer
from strandline.errors import NotOwner, OwnerUndecided
from strandline.wire.problems import from_problem

PART: Final = "/v1/cluster/status"


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

    async def part(self, controller: ControllerRow, asked: PartAsked, viewer: Viewer) -> bytes:
        body = {"streams": asked.streams, "groups": asked.groups}
        call = PassedCall.of_ours("POST", PART, viewer.authorization, body)
        try:
            async with self._peers.ask(controller, call) as answer:
                return await _body_of(answer)
        except NotTaken as error:
            raise NotOwner(reason=str(error)) from None
        except NoAnswer as error:
            raise OwnerUndecided(reason=str(error)) from None

    async def ask(self, kind: Kind, name: str, path: str, viewer: Viewer) -> bytes | None:
        subject = Subject(kind, name)
        call = PassedCall.of_ours("GET", path, viewer.authorization, None)

        async def attempt(owner: ControllerRow) -> bytes:
            async with self._peers.ask(owner, call) as answer:
                return await _body_of(answer)

        try:
            return await self._owners.keep_up(subject, attempt)
        except NoAnswer as error:
            raise OwnerUndecided(**subject.named, reason=str(error)) from None


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
