"""How commands call a controller, and what they say where that fails."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial, wraps
from typing import Any, Final, Generic, TypeVar

import click

from controller.cli.options import option
from controller.operators.wording import named
from controller.settings import HOST_DEFAULT, PORT_DEFAULT
from controller.terminal import Failure, remark
from strandline.client.calls import Call, Response, clock_of, list_streams, list_writers
from strandline.client.group_calls import list_groups
from strandline.client.http import Connection
from strandline.client.retry import Patience
from strandline.errors import (
    ControllerAway,
    Denied,
    InvalidConfig,
    Refused,
    StrandlineError,
    Unauthenticated,
    UnexpectedAnswer,
    UnknownGroup,
    UnknownStream,
    UnknownWriter,
)
from strandline.limits import PAGE_ENTRIES
from strandline.wire.problems import to_problem

DEADLINE_MS: Final = 10_000
ATTEMPTS: Final = 3
NAMES_COMPARED: Final = 10_000  # among which those close to an unknown name are looked for
NAMES_SUGGESTED: Final = 5
REFRESH_MS: Final = 1_000

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Answered(Generic[Value]):
    """What the controller said: as a typed value, and as it stands, for `--json`."""

    value: Value
    response: Response

    @property
    def json(self) -> Any:
        return json.loads(self.response.body)

    @property
    def clock(self) -> int | None:
        """What the controller's clock showed."""
        return clock_of(self.response)


def answered(call: Call[Value]) -> Call[Answered[Value]]:
    """The same call, which also returns its last answer."""
    try:
        request = next(call)
        while True:
            response = yield request
            try:
                request = call.send(response)
            except StopIteration as stop:
                return Answered(stop.value, response)
    finally:
        call.close()


class ControllerClient:
    """A connection that commands ask."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.controller = connection.controller

    def run(self, call: Call[Value]) -> Value:
        """Makes a call; raises its errors."""
        return self.connection.run(call)

    def ask(self, call: Call[Value]) -> Answered[Value]:
        """Makes a call; returns its whole answer."""
        return self.connection.run(answered(call))

    def until_answered(self, ask: Callable[[], Value]) -> Value:
        """What `ask` gives, however long the controller is away: for a command that goes on with what it has shown."""
        told = False
        while True:
            try:
                return ask()
            except Refused:
                raise
            except StrandlineError as error:
                if not told:
                    remark(f"waiting: {self.explain(error)}")
                told = True
                time.sleep(REFRESH_MS / 1000)

    def every(self, page: Callable[[str, int], Call[Any]], what: str, bound: int | None = None) -> list[Any]:
        """The entries of all pages as they stand, up to a bound. `what` is the name of the list in a page."""
        found: list[Any] = []
        after: str | None = ""
        while after is not None and (bound is None or len(found) < bound):
            listed = self.ask(page(after, PAGE_ENTRIES))
            found += listed.json[what]
            after = listed.value.next
        return found[:bound]

    def explain(self, error: StrandlineError) -> str:
        """What a person can do about an error."""
        match error:
            case ControllerAway(reason=reason) if "CERTIFICATE_VERIFY_FAILED" in reason:
                return (
                    f"the controller at {self.controller} has a certificate that is not trusted here ({reason}): "
                    f"name the certificates to trust with --ca-file or STRANDLINE_CA_FILE"
                )
            case ControllerAway(reason=reason):
                return (
                    f"the controller at {self.controller} was not reached ({reason}): start one with "
                    f"`strandline serve`, or name another with --controller or STRANDLINE_CONTROLLER"
                )
            case UnknownStream(stream=stream, group=None):
                return f"there is no stream {stream!r}: {self._instead(stream, list_streams, 'stream')}"
            case UnknownWriter(stream=stream, writer=writer):
                instead = self._instead(writer, partial(list_writers, stream), "writer")
                return f"stream {stream!r} has no writer {writer!r}: {instead}"
            case UnknownGroup(group=group):
                return f"there is no reader group {group!r}: {self._instead(group, list_groups, 'reader group')}"
            case Unauthenticated(reason=reason):
                return f"{reason}: give a token with --token-file, --token or STRANDLINE_TOKEN"
            case UnexpectedAnswer():
                return f"{error}; is it a controller that listens at {self.controller}?"
            case _:
                return str(error)

    def _instead(self, name: str, page: Callable[[str, int], Call[Any]], what: str) -> str:
        """The names that may have been meant."""
        try:
            entries = self.every(page, f"{what.rpartition(' ')[2]}s", NAMES_COMPARED)
        except Denied:
            return f"check the {what}'s name"
        return suggestion(name, [each["writer"] if what == "writer" else each for each in entries], what)


def suggestion(name: str, names: Sequence[str], what: str) -> str:
    """Those of the names that are close to one that is not among them, or else the first ones."""
    if not names:
        return f"there is no {what} yet"
    by_folded = {each.casefold(): each for each in names}
    close = get_close_matches(name.casefold(), by_folded, n=NAMES_SUGGESTED)
    if close:
        return f"did you mean {' or '.join(by_folded[each] for each in close)}?"
    return f"the {what}s are {named(names, NAMES_SUGGESTED)}"


class ReadByTheConnection(click.Option):
    """The connection reads the variables itself, since --token-file comes before STRANDLINE_TOKEN."""

    def value_from_envvar(self, ctx: click.Context) -> None:
        return None


def calls_controller(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Adds the options that name a controller and the caller. The command gets its client as the first argument, and
    returns its exit status, or None for 0."""

    @option(
        "--controller",
        default=f"http://{HOST_DEFAULT}:{PORT_DEFAULT}",
        metavar="URL",
        help="the controller to call; several addresses have commas between",
    )
    @option("--token", cls=ReadByTheConnection, metavar="TOKEN", help="by which the controller recognises the caller")
    @option(
        "--token-file",
        cls=ReadByTheConnection,
        type=click.Path(),
        metavar="FILE",
        help="a file with the token, which keeps it out of the list of processes",
    )
    @option(
        "--ca-file",
        cls=ReadByTheConnection,
        type=click.Path(),
        metavar="FILE",
        help="the certificates to trust, in PEM form, not the machine's; as SSL_CERT_FILE",
    )
    @wraps(command)
    def run(
        *, controller: str, token: str | None, token_file: str | None, ca_file: str | None, **options: object
    ) -> int | None:
        with connected(controller, token=token, token_file=token_file, ca_file=ca_file) as client:
            return command(client, **options)

    return run


@contextmanager
def connected(
    controller: str, *, token: str | None, token_file: str | None, ca_file: str | None
) -> Iterator[ControllerClient]:
    """A client of this controller. Every error within becomes a Failure, or a BadParameter if the address is no URL."""
    patience = Patience(deadline_ms=DEADLINE_MS, attempts=ATTEMPTS)
    try:
        with Connection(
            controller, token=token, token_file=token_file, ca_file=ca_file, patience=patience
        ) as connection:
            client = ControllerClient(connection)
            try:
                yield client
            except StrandlineError as error:
                raise Failure(client.explain(error), problem=to_problem(error)) from None
    except StrandlineError as error:
        if isinstance(error, InvalidConfig) and error.name == "controller":
            raise click.BadParameter(str(error), param_hint="--controller") from None
        raise Failure(str(error), problem=to_problem(error)) from None
