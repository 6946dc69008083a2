"""`strandline`: a command is a row of `single_calls`, or a module with a `command`, imported when it is called.

A module needs no more than the base install and click at its top, so that its `--help` works in any installation. That
of `strandline` is what shells and people ask most: what is imported here is small.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final

import click

from controller.cli.single_calls import ROWS
from controller.terminal import FAILED_CODE, Failure, open_closed_streams, remark

COMMANDS: Final = {
    "serve": "Serve the controller.",
    "demo": "Show the main job end to end, in half a minute.",
    "migrate": "Bring a store to the schema of this version.",
    "token": "Make, list and revoke the tokens of callers.",
    "backup": "Write a store to a file.",
    "restore": "Make a store from a backup.",
    "check": "Load a whole store, and report what cannot be read.",
    "assess": "Say what a watermark of greatest time less a delay loses.",
    "audit": "Say whether a log keeps what the marks promised.",
    "create": "Create a stream.",
    "streams": "List the streams, or describe one.",
    "writers": "List the writers of a stream.",
    "marks": "Show the marks of a stream.",
    "wait": "Wait until everything older than a time is there.",
    "overview": "Show streams once, those in trouble first.",
    "watch": "Watch streams, their lag, and who holds them back.",
    "journal": "Show what happened to a stream or reader group.",
    "tail": "Report a log's end offsets, for exact ingestion time.",
    "relay": "Relay the notes that producers send to a topic of Kafka.",
    "groups": "List the reader groups, or describe one.",
    **{name: row.summary for name, row in ROWS.items()},
    "api": "Make any call of the HTTP API.",
    "completion": "Print a script that completes commands in a shell.",
}
# What people type who know another tool.
MEANT: Final = {
    "status": "'overview' shows streams once, 'watch' follows them, 'streams NAME' describes one.",
    "upgrade": "Did you mean 'migrate', which brings a store to the schema of this version?",
}
INTERRUPTED_STATUS: Final = 130
FAILED_STATUS: Final = 1
WRONG_COMMAND_LINE_CODE: Final = "wrong_command_line"

_json_asked: Final = ContextVar("json_asked", default=False)


class Commands(click.Group):
    """Lists commands without importing them, and reports what one of them cannot do."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in MEANT:
            ctx.fail(f"No such command {args[0]!r}. {MEANT[args[0]]}")
        name, listed, rest = super().resolve_command(ctx, args)
        return name, load(name) if name is not None else listed, rest

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Failure as failure:
            print_error(str(ctx.invoked_subcommand), str(failure), failure.status, failure.problem)
            ctx.exit(failure.status)
        except BrokenPipeError:  # the reader of the pipe has ended; click takes care of it
            raise
        except OSError as error:
            where = f"{error.filename}: " if error.filename is not None else ""
            print_error(str(ctx.invoked_subcommand), f"{where}{error.strerror or error}", FAILED_STATUS)
            ctx.exit(FAILED_STATUS)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED_STATUS)


strandline = Commands(
    "strandline",
    commands=[click.Command(name, short_help=summary) for name, summary in COMMANDS.items()],
    help="Exact watermarks for partitioned logs.",
    epilog="Every option can also be given as an environment variable, which its help names.",
)
click.version_option(package_name="strandline", message="strandline %(version)s")(strandline)


def load(name: str) -> click.Command:
    """A command by its name."""
    if name in ROWS:
        return ROWS[name].command(name)
    module = "strandline_demo.command" if name == "demo" else f"controller.cli.{name}"
    command: click.Command = import_module(module).command
    return command


def print_error(command: str, sentence: str, status: int, problem: Mapping[str, Any] | None = None) -> None:
    """Writes to standard error why a command failed: a line for people, or with --json an object in one line."""
    if _json_asked.get():
        output = {**(problem or {"code": FAILED_CODE}), "detail": sentence, "command": command, "exit_status": status}
        line = json.dumps(output, ensure_ascii=False)
    else:
        line = f"strandline {command}: {sentence}"
    remark(line)


def asks_for_json(words: Sequence[str]) -> bool:
    """Whether errors are to be JSON as well. It looks at the words themselves: they may be what is wrong."""
    options = words[: words.index("--")] if "--" in words else words
    variable = os.environ.get("STRANDLINE_JSON", "").strip().lower()
    return "--json" in options or variable in ("1", "true", "t", "yes", "y", "on")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns what the process should exit with. No secret of a wrong command line is printed."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _json_asked.set(asks_for_json(words))
    open_closed_streams()
    try:
        return int(strandline.main(words, "strandline", standalone_mode=False) or 0)
    except (click.Abort, KeyboardInterrupt):  # also a second Ctrl-C, while the first one is dealt with
        return INTERRUPTED_STATUS
    except click.ClickException as error:
        if _json_asked.get():
            command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "strandline"
            wrong = {"code": WRONG_COMMAND_LINE_CODE}
            print_error(command.removeprefix("strandline "), error.format_message(), error.exit_code, wrong)
            return error.exit_code
        shown = io.StringIO()
        error.show(shown)
        remark(shown.getvalue().rstrip("\n"))
        return error.exit_code
