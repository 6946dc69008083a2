"""How commands call a controller, and what they say where that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from typing import Any, Final, Generic, TypeVar

import click

from controller.cli.limits import ATTEMPTS, DEADLINE_MS, NAMES_COMPARED, NAMES_TOLD
from controller.cli.options import option
from controller.settings import HOST_DEFAULT, PORT_DEFAULT
from controller.terminal import Failure
from strandline.client.calls import (
    Call,
    Clocked,
    ask,
    clocked,
    journals_path,
    marks_at_query,
    query,
    status_path,
    stream_path,
    writer_path,
)
from strandline.client.group_calls import group_path
from strandline.client.http import Connection
from strandline.client.retry import Patience
from strandline.core.segment import NewSegment
from strandline.errors import (
    ControllerAway,
    Denied,
    InvalidConfig,
    StrandlineError,
    Unauthenticated,
    UnexpectedAnswer,
    UnknownGroup,
    UnknownStream,
    UnknownWriter,
)
from strandline.limits import PAGE_ENTRIES
from strandline.wire.controllers import ControllersReply
from strandline.wire.groups import GroupDescription, GroupNames, GroupWindow
from strandline.wire.journal import JournalPage, JournalsPage
from strandline.wire.problems import to_problem
from strandline.wire.shapes import read, reader_of
from strandline.wire.status import StatusPage
from strandline.wire.streams import (
    EvaluatedReply,
    HeadReply,
    JsonObject,
    MarksAt,
    MarksPage,
    NoteReply,
    SegmentsReply,
    StreamDescription,
    StreamNames,
    TimeIndexPage,
    WritersPage,
    new_segment_body,
    read_stream,
)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class CommandAnswer(Generic[Value]):
    """What the controller said: as it stands, for `--json`, and as a typed value."""

    json: JsonObject
    value: Value


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of a list; `next` is what to go on after, if there is more."""

    json: JsonObject
    entries: tuple[Any, ...]
    next: str | None


class ControllerClient:
    """A connection that commands ask."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.controller = connection.controller

    def run(self, call: Call[Value]) -> Value:
        """Makes a call; raises its errors."""
        return self._connection.run(call)

    def clocked(self, call: Call[Value]) -> Clocked[Value]:
        """Makes a call, and says what the controller's clock showed."""
        return self._connection.run(clocked(call))

    def every(self, page: Callable[[str], Call[Listed]], bound: int | None = None) -> list[Any]:
        """The entries of all pages, up to a bound."""
        found: list[Any] = []
        after: str | None = ""
        while after is not None and (bound is None or len(found) < bound):
            listed = self.run(page(after))
            found += listed.entries
            after = listed.next
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
            case UnknownStream(stream=stream):
                return f"there is no stream {stream!r}: {self._instead(stream, list_streams, 'stream', None)}"
            case UnknownWriter(stream=stream, writer=writer):
                instead = self._instead(writer, lambda after: list_writers(stream, after), "writer", "writer")
                return f"stream {stream!r} knows no writer {writer!r}: {instead}"
            case UnknownGroup(group=group):
                return f"there is no reader group {group!r}: {self._instead(group, list_groups, 'reader group', None)}"
            case Unauthenticated(reason=reason):
                return f"{reason}: give a token with --token-file, --token or STRANDLINE_TOKEN"
            case UnexpectedAnswer():
                return f"{error}; is it a controller that listens at {self.controller}?"
            case _:
                return str(error)

    def _instead(self, name: str, page: Callable[[str], Call[Listed]], what: str, field: str | None) -> str:
        """The names that may have been meant."""
        try:
            entries = self.every(page, NAMES_COMPARED)
        except Denied:
            return f"check the {what}'s name"
        names = [each[field] if field else each for each in entries]
        return suggestion(name, names, what)


def suggestion(name: str, names: Sequence[str], what: str) -> str:
    """Those of the names that are close to one that is not among them, or else the first ones."""
    if not names:
        return f"there is no {what} yet"
    by_folded = {each.casefold(): each for each in names}
    close = get_close_matches(name.casefold(), by_folded, n=NAMES_TOLD)
    if close:
        return f"did you mean {' or '.join(by_folded[each] for each in close)}?"
    more = f", and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else ""
    return f"the {what}s are {', '.join(names[:NAMES_TOLD])}{more}"


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
    @option("--token", cls=ReadByTheConnection, metavar="TOKEN", help="what the controller knows the caller by")
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


# -- calls whose answers are printed as they stand ----------------------------------------------------------------


def list_streams(after: str = "", limit: int = PAGE_ENTRIES) -> Call[Listed]:
    """A page of the streams' names."""
    return ask("GET", f"/v1/streams{query(after=after or None, limit=limit)}", _streams)


def list_groups(after: str = "", limit: int = PAGE_ENTRIES) -> Call[Listed]:
    """A page of the reader groups' names."""
    return ask("GET", f"/v1/reader-groups{query(after=after or None, limit=limit)}", _groups)


def journal(stream: str | None, group: str | None, *, after: int) -> Call[CommandAnswer[JournalPage]]:
    """A page of what happened to a stream or, if one is named, a reader group, after a seq."""
    path = stream_path(stream or "") if group is None else group_path(group)
    asked = query(after=after or None, limit=PAGE_ENTRIES)
    return ask("GET", f"{path}/journal{asked}", _both(reader_of(JournalPage)))


def journals(**asked: Any) -> Call[CommandAnswer[JournalsPage]]:
    """A page of what happened to all streams, newest first; arguments are those of `journals_path`."""
    return ask("GET", journals_path(**asked), _both(reader_of(JournalsPage)))


def list_writers(stream: str, after: str = "", limit: int = PAGE_ENTRIES) -> Call[Listed]:
    """A page of a stream's writers, as JSON objects, each of which is a `WriterReply`."""
    path = f"{stream_path(stream)}/writers{query(after=after or None, limit=limit)}"
    return ask("GET", path, _writers)


def describe(stream: str) -> Call[CommandAnswer[StreamDescription]]:
    return ask("GET", stream_path(stream), _both(read_stream))


def status(streams: Sequence[str] = (), *, limit: int) -> Call[CommandAnswer[StatusPage]]:
    """How streams are: these, or the first by name."""
    return ask("GET", status_path(streams, limit=limit), _both(reader_of(StatusPage)))


def marks(
    stream: str, key: str, *, after: int, limit: int | None = None, wait_ms: int = 0
) -> Call[CommandAnswer[MarksPage]]:
    """The marks after a seq."""
    asked = query(key=key or None, after=after, limit=limit, wait_ms=wait_ms or None)
    return ask("GET", f"{stream_path(stream)}/marks{asked}", _marked, wait_ms=wait_ms)


def marks_at(
    stream: str, key: str, time: int, *, wait_ms: int = 0, allow_incomplete: bool = False
) -> Call[CommandAnswer[MarksAt]]:
    """The marks around a time, and where reading from it begins. With `wait_ms` it waits until everything older is
    there."""
    asked = marks_at_query(time, key=key, wait_ms=wait_ms, allow_incomplete=allow_incomplete)
    return ask("GET", f"{stream_path(stream)}/marks/at{asked}", _both(reader_of(MarksAt)), wait_ms=wait_ms)


def time_index(
    stream: str, segment: str, key: str, *, from_offset: int, limit: int
) -> Call[CommandAnswer[TimeIndexPage]]:
    """Offset and time within a segment."""
    asked = query(key=key or None, from_offset=from_offset or None, limit=limit)
    path = f"{stream_path(stream)}/segments/{segment}/time-index{asked}"
    return ask("GET", path, _both(reader_of(TimeIndexPage)))


def controllers() -> Call[CommandAnswer[ControllersReply]]:
    """The controllers that serve the store."""
    return ask("GET", "/v1/controllers", _both(reader_of(ControllersReply)))


def exclude(stream: str, writer: str) -> Call[CommandAnswer[MarksPage]]:
    """Excludes a writer; returns the marks that this brought about."""
    return ask("POST", f"{writer_path(stream, writer)}/exclude", _marked)


def include(stream: str, writer: str) -> Call[CommandAnswer[MarksPage]]:
    """Brings a writer back; returns the marks that this brought about."""
    return ask("DELETE", f"{writer_path(stream, writer)}/exclude", _marked)


def seal(stream: str, final: Mapping[str, int]) -> Call[CommandAnswer[MarksPage]]:
    """Ends the stream; returns the marks that this brought about."""
    return ask("POST", f"{stream_path(stream)}/seal", _marked, {"final": dict(final)})


def scale(stream: str, seal: Mapping[str, int], create: Sequence[NewSegment]) -> Call[CommandAnswer[SegmentsReply]]:
    """Seals segments, and creates their successors; returns all segments."""
    body = {"seal": dict(seal), "create": [new_segment_body(new) for new in create]}
    return ask("POST", f"{stream_path(stream)}/scale", _both(reader_of(SegmentsReply)), body)


def truncate(stream: str, head: Mapping[str, int]) -> Call[CommandAnswer[HeadReply]]:
    """Moves the head; returns where it is."""
    return ask("POST", f"{stream_path(stream)}/truncate", _both(reader_of(HeadReply)), {"head": dict(head)})


def evaluate(stream: str, key: str) -> Call[CommandAnswer[EvaluatedReply]]:
    """Makes a mark now, if one is possible; else says who holds time back."""
    return ask("POST", f"{stream_path(stream)}/marks", _both(reader_of(EvaluatedReply)), {"key": key})


def configure(stream: str, settings: JsonObject) -> Call[CommandAnswer[StreamDescription]]:
    """Changes settings of a stream; returns its description."""
    return ask("PATCH", stream_path(stream), _both(read_stream), settings)


def configure_group(group: str, settings: JsonObject) -> Call[CommandAnswer[GroupDescription]]:
    """Changes settings of a reader group; returns its description."""
    return ask("PATCH", group_path(group), _both(reader_of(GroupDescription)), settings)


def describe_group(group: str) -> Call[CommandAnswer[GroupDescription]]:
    return ask("GET", group_path(group), _both(reader_of(GroupDescription)))


def group_window(group: str) -> Call[CommandAnswer[GroupWindow]]:
    return ask("GET", f"{group_path(group)}/time-window", _both(reader_of(GroupWindow)))


def tail(stream: str, reporter: str, time: int, position: Mapping[str, int]) -> Call[CommandAnswer[NoteReply]]:
    """Reports where a log ends; returns the marks that this brought about."""
    body = {"reporter": reporter, "time": time, "position": dict(position)}
    return ask("POST", f"{stream_path(stream)}/tail", _both(reader_of(NoteReply)), body)


def _both(typed: Callable[[bytes], Value]) -> Callable[[bytes], CommandAnswer[Value]]:
    """Reads a body as it stands, and as a typed value."""
    return lambda body: CommandAnswer(read(dict, body), typed(body))


_marked: Final = _both(reader_of(MarksPage))


def _streams(body: bytes) -> Listed:
    page = read(StreamNames, body)
    return Listed(read(dict, body), page.streams, page.next)


def _groups(body: bytes) -> Listed:
    page = read(GroupNames, body)
    return Listed(read(dict, body), page.groups, page.next)


def _writers(body: bytes) -> Listed:
    said = read(dict, body)
    return Listed(said, tuple(said["writers"]), read(WritersPage, body).next)
