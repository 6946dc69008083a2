"""`strandline`: a module for each command, with HELP, `add_options(parser)` and `run(options)`.

A module imports only the standard library at its top, so that `--help` works, and is quick, in any installation.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Final, NoReturn

from controller.terminal import Failure
from strandline.redaction import redact

COMMANDS: Final = (
    "serve",
    "demo",
    "migrate",
    "token",
    "backup",
    "restore",
    "rewind",
    "check",
    "create",
    "streams",
    "writers",
    "marks",
    "window",
    "position",
    "index",
    "watch",
    "journal",
    "tail",
    "exclude",
    "include",
    "completion",
)


class Parser(argparse.ArgumentParser):
    """Tells a mistake in the command line without the secrets that may stand in it, and which command may be meant."""

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"argument command: invalid choice: '(.*?)'", message)
        if unknown is not None:
            close = get_close_matches(unknown[1], COMMANDS)
            instead = f"did you mean {' or '.join(close)}?" if close else f"the commands are {', '.join(COMMANDS)}"
            message = f"there is no command {unknown[1]!r}: {instead}"
        super().error(redact(message))


def make_parser() -> Parser:
    parser = Parser(
        prog="strandline",
        description="Exact watermarks for partitioned logs.",
        epilog="Every option can also be given as an environment variable, which its help names.",
    )
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name in COMMANDS:
        module = import_module(f"controller.cli.{name}")
        command = commands.add_parser(name, help=module.HELP, description=module.__doc__)
        module.add_options(command)
        command.set_defaults(run=module.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns what the process should exit with."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except Failure as failure:
        print(redact(f"strandline {options.command}: {failure}"), file=sys.stderr)
        return failure.status
    except KeyboardInterrupt:
        return 130
