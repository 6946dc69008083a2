"""The call that has a controller hand everything over and end. Any controller takes it, and passes it on once."""

from __future__ import annotations

from contextlib import suppress

from controller.cluster.records import ControllerRow
from controller.controller import Controller, JointController
from controller.http.forwarding.forwarding import Forwarding
from controller.http.forwarding.peers import NoAnswer, NotTaken, PassedCall
from strandline.client.calls import Response, drain_controller
from strandline.errors import ControllerNotReached, OwnerUndecided, UnknownController
from strandline.names import check_name
from strandline.wire.controllers import ControllerState


async def drain(
    controller: Controller,
    forwarding: Forwarding | None,
    name: str,
    token: bytes | None,
    by: str | None,
    *,
    force: bool,
    passed_on: bool,
) -> None:
    """Returns once the controller of this name has begun to drain. `token` is the header with which it is asked, `by`
    the token's name; a call that was passed on is for this controller or for nobody.

    Raises InvalidName, UnknownController, LastController, ServesAlone, ControllerNotReached, OwnerUndecided and
    StoreUnavailable, and whatever else the other controller refuses.
    """
    check_name("controller", name)
    if forwarding is None or not isinstance(controller, JointController) or name == controller.member.identity.name:
        await controller.drain(by, force=force)
        return
    other = None
    if not passed_on:
        other = controller.member.named(name)
        if other is None:  # it may have begun since the last beat was answered
            await controller.read_controllers()
            other = controller.member.named(name)
    if other is None:
        seen = controller.controllers().controllers
        live = tuple(
            each.name or "" for each in seen if each.state not in (ControllerState.ENDED, ControllerState.LOST)
        )
        raise UnknownController(controller=name, controllers=live)
    await _pass_on(forwarding, other, token, force=force)


async def _pass_on(forwarding: Forwarding, other: ControllerRow, token: bytes | None, *, force: bool) -> None:
    call = drain_controller(other.name, force=force)
    request = next(call)
    passed = PassedCall.of_ours(request.method, request.path, token, request.body)
    try:
        async with forwarding.peers.ask(other, passed) as answer:
            response = Response(answer.status, {}, await answer.whole())
    except NotTaken as error:
        raise ControllerNotReached(controller=other.name, reason=str(error)) from None
    except NoAnswer as error:
        raise OwnerUndecided(reason=str(error)) from None
    with suppress(StopIteration):  # that is its end
        call.send(response)
