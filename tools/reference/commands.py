"""The commands of `strandline`, from their parsers."""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from controller.cli import make_parser
from tools.reference.text import code, page, table

COLUMNS: Final = ("option", "variable", "default", "meaning")
SHARED_BY: Final = 5  # an option of at least so many commands is listed once


class Option(NamedTuple):
    """An option or a positional argument, as its parser has it."""

    shown: str
    variable: str
    default: str
    meaning: str

    @property
    def row(self) -> tuple[str, str, str, str]:
        return code(self.shown), code(self.variable), code(self.default), self.meaning


def options_of_commands() -> dict[str, tuple[argparse.ArgumentParser, list[Option]]]:
    """Each command and subcommand with its options, independent of the environment."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("STRANDLINE_")}
    try:
        return {
            name: (parser, [_option(parser, action) for action in _shown(parser)])
            for name, parser in _commands(make_parser())
        }
    finally:
        os.environ.update(kept)


def command_line() -> str:
    """Each command with its arguments and options."""
    commands = options_of_commands()
    counted = Counter(option for _, options in commands.values() for option in options)
    shared = [option for option, count in counted.items() if count >= SHARED_BY]
    introduction = (
        "The options and arguments of each command of `strandline`. Every option is an environment variable as well; "
        "the command line has precedence. A command exits with 0 if it succeeded, with 1 if it failed, with 2 if the "
        "command line was wrong, and with 130 after Ctrl-C. [command-line.md](../command-line.md) shows how to use the "
        "commands that call a controller."
    )
    sections = [
        part for name, (parser, options) in commands.items() for part in _section(name, parser, options, shared)
    ]
    common = "## Options that many commands take\n\n" + table(COLUMNS, (option.row for option in shared))
    return page("The command line", introduction, [*sections, common])


def _section(name: str, parser: argparse.ArgumentParser, options: list[Option], shared: list[Option]) -> Iterator[str]:
    yield f"## `{name}`"
    yield f"`{' '.join([name, *_usage(parser)])}`"
    yield " ".join((parser.description or "").split())
    own = [option for option in options if option not in shared]
    if own:
        yield table(COLUMNS, (option.row for option in own))
    taken = [code(option.shown.partition(" ")[0]) for option in options if option in shared]
    if taken:
        yield f"And {', '.join(taken)}: see [below](#options-that-many-commands-take)."


def _usage(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The required options and the arguments, and a placeholder for the other options."""
    shown = _shown(parser)
    yield from (_name(action) for action in shown if action.option_strings and action.required)
    for action in shown:
        if not action.option_strings:
            optional = action.nargs in ("?", "*")
            several = "…" if action.nargs in ("*", "+") else ""
            yield f"[{_name(action)}{several}]" if optional else _name(action) + several
    if any(isinstance(action, argparse._SubParsersAction) for action in parser._actions):
        yield "COMMAND"
    if any(action.option_strings and not action.required for action in shown):
        yield "[OPTIONS]"


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield command.prog, command
                yield from _commands(command)


def _shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        action
        for action in parser._actions
        if action.help and action.help != argparse.SUPPRESS and "--help" not in action.option_strings
    ]


def _name(action: argparse.Action) -> str:
    shown = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return shown.upper()
    return action.option_strings[-1] if action.nargs == 0 else f"{action.option_strings[-1]} {shown}"


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> Option:
    text = parser._get_formatter()._expand_help(action)
    found = re.search(r"\s*\[(STRANDLINE_\w+)(?:; default: (.*))?\]$", text, re.DOTALL)
    meaning = " ".join((text[: found.start()] if found else text).split())
    needed = "; needed" if action.option_strings and action.required else ""
    return Option(_name(action), found[1] if found else "", (found[2] or "") if found else "", meaning + needed)
