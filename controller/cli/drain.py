"""`strandline drain`."""

from __future__ import annotations

import time
from typing import Final

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import confirm, json_option, name_of, option, yes_option
from controller.terminal import Failure, say
from controller.wording import compact, span
from strandline.client.calls import controllers, drain_controller
from strandline.errors import ControllerAway, OutcomeUnknown, Unavailable
from strandline.wire.controllers import ControllerReply, ControllersReply, ControllerState

DRAIN_MS: Final = 40_000  # how long the command waits; a controller that is told to end takes 20 s at most
DRAIN_PAUSE_MS: Final = 200


@click.command
@click.argument("name", type=name_of("controller"), help="the controller, as `strandline controllers` names it")
@option("--force", is_flag=True, help="also if it is the last one: nobody serves the store then")
@yes_option
@calls_controller
@json_option
def command(client: ControllerClient, name: str, force: bool, yes: bool, as_json: bool) -> None:
    """Have a controller hand everything over to the others, and end. Any controller can be called. The command waits
    until that one is gone."""
    confirm(f"Drain {name}? It hands what it serves over to the others, and ends.", yes=yes)
    began = time.monotonic()
    before = client.run(controllers())
    client.run(drain_controller(name, force=force))
    shown = None
    while (now := _left(client, before, name)) is not None:
        if not as_json and now.shards != shown:
            shown = now.shards
            say(f"{name} has {shown} shards left")
        if (time.monotonic() - began) * 1000 > DRAIN_MS:
            raise Failure(f"{name} is still there after {span(DRAIN_MS)}: its log says why")
        time.sleep(DRAIN_PAUSE_MS / 1000)
    took_ms = round((time.monotonic() - began) * 1000)
    say(compact({"drained": name, "ms": took_ms}) if as_json else f"{name} has ended, after {span(took_ms)}")


def _left(client: ControllerClient, before: ControllersReply, name: str) -> ControllerReply | None:
    """The controller as it is now; None once it is gone, or has begun again. While nobody answers it is as it was."""
    was = _find(before, name)
    try:
        found = _find(client.run(controllers()), name)
    except ControllerAway:
        return None if before.asked == name else was
    except (Unavailable, OutcomeUnknown):
        return was
    is_gone = found is None or found.state in (ControllerState.ENDED, ControllerState.LOST)
    return None if is_gone or (was is not None and found is not None and found.since != was.since) else found


def _find(seen: ControllersReply, name: str) -> ControllerReply | None:
    return next((each for each in seen.controllers if each.name == name), None)
