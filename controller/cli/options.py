"""Options that are environment variables as well."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Value = TypeVar("Value")


def add_option(
    parser: argparse.ArgumentParser,
    name: str,
    kind: Callable[[str], Value],
    default: Value,
    help: str,
    metavar: str | None = None,
) -> None:
    """Adds `--name`, with STRANDLINE_NAME for where it is not given."""
    variable = variable_of(name)
    given = os.environ.get(variable)
    parser.add_argument(
        f"--{name}",
        # argparse passes a default that is text through `kind`, so a bad variable is told like a bad option.
        type=kind,
        default=default if given is None else given,
        metavar=metavar or name.upper().replace("-", "_"),
        help=f"{help} [{variable}; default: {default}]",
    )


def add_flag(parser: argparse.ArgumentParser, name: str, help: str) -> None:
    """Adds `--name`, which is on as well where STRANDLINE_NAME is 1, true, yes or on."""
    variable = variable_of(name)
    on = os.environ.get(variable, "").strip().lower() in ("1", "true", "yes", "on")
    parser.add_argument(f"--{name}", action="store_true", default=on, help=f"{help} [{variable}]")


def add_list(parser: argparse.ArgumentParser, name: str, help: str, metavar: str) -> None:
    """Adds `--name`, which may be given several times; STRANDLINE_NAME has all of them, with commas in between."""
    variable = variable_of(name)
    given = [each.strip() for each in os.environ.get(variable, "").split(",")]
    parser.add_argument(
        f"--{name}",
        action=_Append,
        default=[each for each in given if each],
        metavar=metavar,
        help=f"{help}; the variable has several with commas between [{variable}]",
    )


class _Append(argparse.Action):
    """Gathers values; the first takes the place of the default."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, [*(() if before is self.default else before), values])


def variable_of(name: str) -> str:
    return "STRANDLINE_" + name.upper().replace("-", "_")


def port(text: str) -> int:
    """A port number."""
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535, 0 for any that is free")
    return int(text)


def count(text: str) -> int:
    """A whole number from 0 up."""
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number: a whole one from 0 up")
    return int(text)


def one_of(words: Sequence[str]) -> Callable[[str], str]:
    """One of these words."""

    def check(text: str) -> str:
        if text not in words:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(words)}")
        return text

    return check
