"""The options that the commands which ask a controller share, and how the values of others are read."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from controller.cli.options import Value, add_flag, add_option, variable_of


def add_controller(parser: argparse.ArgumentParser) -> None:
    """Adds --controller, --token, --token-file and --ca-file."""
    from controller.settings import HOST_DEFAULT, PORT_DEFAULT

    served = f"http://{HOST_DEFAULT}:{PORT_DEFAULT}"
    add_option(parser, "controller", controller_url, served, "the controller to ask", "URL")
    # The connection looks for these variables itself: what is given as an option comes before both.
    parser.add_argument("--token", metavar="TOKEN", help="what the controller knows the caller by [STRANDLINE_TOKEN]")
    wanted = "a file with the token, which keeps it out of the list of processes [STRANDLINE_TOKEN_FILE]"
    parser.add_argument("--token-file", metavar="FILE", help=wanted)
    wanted = "the certificates to trust, in PEM form, not the machine's; as SSL_CERT_FILE [STRANDLINE_CA_FILE]"
    parser.add_argument("--ca-file", metavar="FILE", help=wanted)


def add_showing(parser: argparse.ArgumentParser) -> None:
    """Adds --json and --plain-times."""
    add_json(parser)
    add_flag(parser, "plain-times", "show every time as a number, and none as a date")


def add_json(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "json", "print JSON, as the HTTP API has it")


def add_optional(
    parser: argparse._ActionsContainer, name: str, kind: Callable[[str], Value], help: str, metavar: str | None = None
) -> argparse.Action:
    """Adds `--name`, with STRANDLINE_NAME for where it is not given, and None where neither is; returns it."""
    variable = variable_of(name)
    return parser.add_argument(
        f"--{name}",
        type=kind,
        default=os.environ.get(variable),
        metavar=metavar or name.upper().replace("-", "_"),
        help=f"{help} [{variable}]",
    )


def controller_url(text: str) -> str:
    """The URL of a controller."""
    from strandline.client.http import check_controller
    from strandline.errors import InvalidConfig

    try:
        return check_controller(text)
    except InvalidConfig as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def name_of(what: str) -> Callable[[str], str]:
    """Reads the name of a stream, a writer, and so on."""

    def read(text: str) -> str:
        from strandline.errors import InvalidName
        from strandline.names import check_name

        try:
            return check_name(what, text)
        except InvalidName as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def time_key(text: str) -> str:
    """A time key; an empty text is the default one."""
    return text and name_of("time key")(text)


def whole(first: int, last: int) -> Callable[[str], int]:
    """Reads a whole number from `first` to `last`."""

    def read(text: str) -> int:
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
        if not first <= number <= last:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {first} to {last}")
        return number

    return read


def moment(text: str) -> int:
    """A time: a whole number, as notes have it, or a date, which is in UTC where it names no other zone."""
    from strandline.limits import TIME_BOUND_MS

    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdecimal() and len(digits) < 20:
        number = int(text)
    else:
        try:
            given = datetime.fromisoformat(text)
        except ValueError:
            wanted = "a whole number of milliseconds, or a date such as 2026-01-31T12:00:00Z"
            raise argparse.ArgumentTypeError(f"{text[:200]!r} is no time: give {wanted}") from None
        aware = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
        number = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    if not -TIME_BOUND_MS < number < TIME_BOUND_MS:
        raise argparse.ArgumentTypeError(f"{text[:200]!r} is no time: it has to lie within ±{TIME_BOUND_MS - 1}")
    return number


def position(text: str) -> dict[str, int]:
    """A position: `0=5,1=7`, or a JSON object of the same. An empty one has read nothing."""
    from strandline.core.note import check_position
    from strandline.errors import StrandlineError

    try:
        pairs = _pairs_of_json(text) if text.lstrip().startswith("{") else _pairs_of_text(text)
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("it names a segment twice")
        check_position(found)
    except (ValueError, RecursionError, StrandlineError) as error:
        wanted = 'an offset for each segment, as 0=5,1=7 or {"0": 5, "1": 7}'
        raise argparse.ArgumentTypeError(f"{text[:200]!r} is no position ({error}): give {wanted}") from None
    return found


def _pairs_of_json(text: str) -> Sequence[tuple[str, Any]]:
    return json.loads(text, object_pairs_hook=lambda pairs: pairs)  # type: ignore[no-any-return]  # checked by the caller


def _pairs_of_text(text: str) -> Sequence[tuple[str, int]]:
    pairs = []
    for each in text.split(",") if text.strip() else ():
        segment, equals, offset = each.strip().partition("=")
        if not equals or not offset.isascii() or not offset.isdecimal() or len(offset) > 20:
            raise ValueError(f"{each.strip()!r} is no segment=offset")
        pairs.append((segment, int(offset)))
    return pairs
