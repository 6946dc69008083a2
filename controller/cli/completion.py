"""`strandline completion`."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from controller.terminal import say

SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command
@click.argument("shell", type=click.Choice(list(SHELLS)), help="the shell")
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands and options in a shell: source <(strandline completion bash)."""
    say(SHELLS[shell](ctx.find_root().command, {}, "strandline", "_STRANDLINE_COMPLETE").source())
