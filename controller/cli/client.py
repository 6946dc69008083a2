"""How commands call a controller, and what they say where that fails."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, Generic, TypeVar

import click

from controller.cli.options import option
from controller.settings import HOST_DEFAULT, PORT_DEFAULT
from controller.terminal import Failure, remark
from strandline.client.calls import Call, Response, clock_of
from strandline.client.http import Connection
from strandline.client.retry import Patience
from strandline.errors import (
    ControllerAway,
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

    def every(self, page: Callable[[str, int], Call[Any]], what: str) -> list[Any]:
        """The entries of all pages as they stand. `what` is the name of the list in a page."""
        found: list[Any] = []
        after: str | None = ""
        while after is not None:
            listed = self.ask(page(after, PAGE_ENTRIES))
            found += listed.json[what]
            after = listed.value.next
        return found

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
                return f"there is no stream {stream!r}: `strandline streams` lists them"
            case UnknownWriter(stream=stream, writer=writer):
                return f"stream {stream!r} has no writer {writer!r}: `strandline writers {stream}` lists them"
            case UnknownGroup(group=group):
                return f"there is no reader group {group!r}: `strandline groups` lists them"
            case Unauthenticated(reason=reason):
                return f"{reason}: give a token with --token-file, --token or STRANDLINE_TOKEN"
            case UnexpectedAnswer():
                return f"{error}; is it a controller that listens at {self.controller}?"
            case _:
                return str(error)


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
