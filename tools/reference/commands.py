"""The commands of `strandline`, as click has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import click

from controller.cli import COMMANDS, load, strandline
from tools.reference.text import code, items, page

SHARED_BY: Final = 5  # an option of at least so many commands is listed once


class Option(NamedTuple):
    """An option or a positional argument."""

    shown: str
    variable: str
    default: str
    meaning: str

    @property
    def item(self) -> tuple[str, str]:
        default = self.default if self.default.startswith("(") else f"({code(self.default)})"
        return f"{code(self.shown)} {default}" if self.default else code(self.shown), self.meaning


def options_of_commands() -> dict[str, list[Option]]:
    """Each command and subcommand with its options."""
    return {
        ctx.command_path: [_option(parameter, ctx) for parameter in ctx.command.params]
        for ctx in contexts_of_commands()
    }


def contexts_of_commands() -> Iterator[click.Context]:
    """Each command and subcommand, as it is called by its name."""
    root = click.Context(strandline, info_name="strandline")
    for name in COMMANDS:
        ctx = click.Context(load(name), parent=root, info_name=name)
        yield ctx
        if isinstance(ctx.command, click.Group):
            for each, command in ctx.command.commands.items():
                yield click.Context(command, parent=ctx, info_name=each)


def command_line() -> str:
    """Each command with its arguments and options."""
    counted = Counter(option for options in options_of_commands().values() for option in options)
    shared = [option for option, count in counted.items() if count >= SHARED_BY]
    introduction = (
        "The options and arguments of each command of `strandline`, with defaults in brackets. Every option is an "
        "environment variable as well, `--allowed-host` for instance `STRANDLINE_ALLOWED_HOST`; "
        "the command line has precedence. A command exits with 0 if it succeeded, with 1 if it failed, with 2 if the "
        "command line was wrong, and with 130 after Ctrl-C. [command-line.md](../command-line.md) shows how to use the "
        "commands that call a controller."
    )
    sections = [part for ctx in contexts_of_commands() for part in _section(ctx, shared)]
    common = "## Options that many commands take\n\n" + items(option.item for option in shared)
    return page("The command line", introduction, [*sections, common])


def _section(ctx: click.Context, shared: list[Option]) -> Iterator[str]:
    options = [_option(parameter, ctx) for parameter in ctx.command.params]
    yield f"## `{ctx.command_path}`"
    if (usage := ctx.command.collect_usage_pieces(ctx)) != ["[OPTIONS]"]:
        yield f"`{' '.join([ctx.command_path, *usage])}`"
    yield " ".join((ctx.command.help or "").split())
    own = [option for option in options if option not in shared]
    if own:
        yield items(option.item for option in own)
    taken = [code(option.shown.partition(" ")[0]) for option in options if option in shared]
    if taken:
        yield f"And [{', '.join(taken)}](#options-that-many-commands-take)."


def _option(parameter: click.Parameter, ctx: click.Context) -> Option:
    meaning = " ".join((parameter.help or "").split())
    if not isinstance(parameter, click.Option):
        return Option(parameter.make_metavar(ctx), "", "", meaning)
    extra = parameter.get_help_extra(ctx)
    return Option(
        parameter.get_help_spec(ctx),
        ", ".join(extra.get("envvars", ())),
        extra.get("default", ""),
        "; ".join(filter(None, (meaning, extra.get("range", ""), "required" if parameter.required else ""))),
    )
