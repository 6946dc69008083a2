"""`strandline configure`."""

from __future__ import annotations

from typing import Any

import click

from controller.cli.client import ControllerClient, calls_controller, configure, configure_group
from controller.cli.create import check_known, settings_in
from controller.cli.options import group_option, json_option, name_of, one_of, option
from controller.format import compact, indented
from controller.terminal import say
from strandline.core.config import SETTINGS
from strandline.wire.groups import GROUP_SETTINGS


@click.command
@click.argument("stream", required=False, type=name_of("stream"), help="the stream")
@group_option
@option(
    "--settings",
    type=settings_in,
    required=True,
    metavar="SETTINGS",
    help="those to change, as min_writers=2,writer_timeout_ms=null; docs/reference/options.md has them all",
)
@calls_controller
@json_option
def command(
    client: ControllerClient, stream: str | None, group: str | None, settings: dict[str, Any], as_json: bool
) -> None:
    """Change settings of a stream or of a reader group; the others stay as they are."""
    name, is_stream = one_of(stream, group)
    if is_stream:
        check_known(settings, (each for each, setting in SETTINGS.items() if not setting.says.stays))
        answered = client.run(configure(name, settings)).json
    else:
        check_known(settings, GROUP_SETTINGS)
        answered = client.run(configure_group(name, settings)).json
    told = ", ".join(
        f"{each}={value if isinstance(value, str) else compact(value)}" for each, value in settings.items()
    )
    say(indented(answered) if as_json else f"{name} has {told}")
