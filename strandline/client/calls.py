"""Each call of the HTTP API as a generator: it yields a request, receives the response, and returns a typed value.

    call = note("orders", Note(writer="w1", times={"": 100}, position={"0": 100}))
    request = next(call)                 Request(method="POST", path="/v1/streams/orders/notes", …)
    call.send(response)                  returns a NoteAnswer (in StopIteration), or raises the typed error

Nothing here waits, repeats or reads a clock: see `retry.py`. Names are checked before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from strandline.core.changes import Registered
from strandline.core.config import StreamConfig
from strandline.core.note import DEFAULT_KEY, Note, check_key, check_position
from strandline.core.segment import NewSegment
from strandline.core.window import TimeWindow
from strandline.errors import StrandlineError, TooMany, UnexpectedAnswer
from strandline.limits import NOTES_PER_REQUEST, WAIT_BOUND_MS
from strandline.names import check_name
from strandline.wire import streams
from strandline.wire.controllers import ControllersReply
from strandline.wire.journal import JournalPage
from strandline.wire.problems import from_problem
from strandline.wire.shapes import read, reader_of
from strandline.wire.status import StatusPage
from strandline.wire.streams import (
    EvaluatedReply,
    HeadReply,
    JsonObject,
    MarksAt,
    MarksPage,
    NoteAnswer,
    SegmentsReply,
    StreamDescription,
    StreamNames,
    TimeIndexPage,
    TimesWithout,
    WritersPage,
)

Value = TypeVar("Value")

TIME_HEADER: Final = "strandline-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to send. `path` includes the query. `repeatable`: sending it twice has the effect of sending it once.
    `wait_ms`: how long the controller may wait on purpose."""

    method: str
    path: str
    body: JsonObject | None = None
    repeatable: bool
    wait_ms: int = 0

    @property
    def name(self) -> str:
        return f"{self.method} {self.path.partition('?')[0]}"


@dataclass(frozen=True, slots=True)
class Response:
    """A response. The names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Call: TypeAlias = Generator[Request, Response, Value]


@dataclass(frozen=True, slots=True)
class Clocked(Generic[Value]):
    """The result of a call, and the controller's clock in its last answer, if that had it."""

    value: Value
    clock: int | None


def clocked(call: Call[Value]) -> Call[Clocked[Value]]:
    """The same call, which also returns the controller's clock."""
    clock = None
    try:
        request = next(call)
        while True:
            response = yield request
            clock = clock_of(response)
            request = call.send(response)
    except StopIteration as stop:
        return Clocked(stop.value, clock)
    finally:
        call.close()


def clock_of(response: Response) -> int | None:
    text = response.headers.get(TIME_HEADER, "")
    return int(text) if text.removeprefix("-").isdecimal() and len(text) <= 17 else None


# -- streams ---------------------------------------------------------------------------------------------------


def create_stream(
    stream: str, segments: int | Sequence[NewSegment] | Literal["open"], config: StreamConfig | None = None
) -> Call[bool]:
    """Creates a stream; returns whether it is new. Raises StreamExists if a different stream has that name."""
    asked = segments if isinstance(segments, int | str) else [streams.new_segment_body(new) for new in segments]
    settings = streams.settings_by_name(config if config is not None else StreamConfig())
    return (yield from ask_whether_new(stream_path(stream), {"segments": asked, **settings}))


def list_streams(after: str = "", limit: int | None = None) -> Call[StreamNames]:
    """A page of the streams' names."""
    return (yield from ask("GET", f"/v1/streams{query(after=after or None, limit=limit)}", reader_of(StreamNames)))


def describe(stream: str) -> Call[StreamDescription]:
    return (yield from ask("GET", stream_path(stream), streams.read_stream))


def configure(stream: str, settings: JsonObject) -> Call[StreamDescription]:
    """Changes settings of a stream; the others stay as they are. Returns its new description."""
    return (yield from ask("PATCH", stream_path(stream), streams.read_stream, settings))


def scale(stream: str, seal: Mapping[str, int], create: Sequence[NewSegment]) -> Call[SegmentsReply]:
    """Seals segments at final offsets, and creates their successors; returns all segments."""
    body = {"seal": dict(seal), "create": [streams.new_segment_body(new) for new in create]}
    return (yield from ask("POST", f"{stream_path(stream)}/scale", reader_of(SegmentsReply), body))


def seal(stream: str, final: Mapping[str, int]) -> Call[MarksPage]:
    """Ends the stream; returns the marks that this brought about."""
    return (yield from ask("POST", f"{stream_path(stream)}/seal", reader_of(MarksPage), {"final": dict(final)}))


def delete_stream(stream: str) -> Call[None]:
    """Deletes the stream, its writers, marks and journal."""
    yield from tell("DELETE", stream_path(stream))


def truncate(stream: str, head: Mapping[str, int]) -> Call[HeadReply]:
    """Moves the head: the log has removed the events below it. Returns where it is."""
    return (yield from ask("POST", f"{stream_path(stream)}/truncate", reader_of(HeadReply), {"head": dict(head)}))


def tail(stream: str, reporter: str, time: int, position: Mapping[str, int]) -> Call[NoteAnswer]:
    """Reports the end offset of every segment, read after the controller's clock showed `time`."""
    check_name("writer", reporter)
    check_position(position)
    body = {"reporter": reporter, "time": time, "position": dict(position)}
    return (yield from ask("POST", f"{stream_path(stream)}/tail", streams.read_note_answer, body))


# -- writers and notes -----------------------------------------------------------------------------------------


def list_writers(stream: str, after: str = "", limit: int | None = None) -> Call[WritersPage]:
    """A page of a stream's writers."""
    path = f"{stream_path(stream)}/writers{query(after=after or None, limit=limit)}"
    return (yield from ask("GET", path, reader_of(WritersPage)))


def times_without(stream: str, writer: str) -> Call[TimesWithout]:
    """From when to when time would go if a writer were excluded, or closed; changes nothing."""
    return (yield from ask("GET", f"{writer_path(stream, writer)}/times-without", reader_of(TimesWithout)))


def exclude(stream: str, writer: str) -> Call[MarksPage]:
    """Excludes a writer; returns the marks that this brought about."""
    return (yield from ask("POST", f"{writer_path(stream, writer)}/exclude", reader_of(MarksPage)))


def include(stream: str, writer: str) -> Call[MarksPage]:
    """Brings an excluded writer back; returns the marks that this brought about."""
    return (yield from ask("DELETE", f"{writer_path(stream, writer)}/exclude", reader_of(MarksPage)))


def register(stream: str, writer: str, keys: Iterable[str] = (), registration: str | None = None) -> Call[Registered]:
    """Registers a writer. A repeat with the same `registration`, a name made up for it, is the same registration.
    Without a name, a repeat gets a higher epoch, and fences the registration before it."""
    named = [check_key(key) for key in keys]
    body: JsonObject | None = {"keys": named} if named else None
    if registration is not None:
        body = {**(body or {}), "registration": check_name("registration", registration)}
    return (yield from ask("PUT", writer_path(stream, writer), streams.read_registered, body))


def note(stream: str, note: Note) -> Call[NoteAnswer]:
    path = f"{stream_path(stream)}/notes"
    return (
        yield from ask(
            "POST", path, partial(streams.read_note_answer, keyed=streams.is_keyed(note)), streams.note_body(note)
        )
    )


def notes(stream: str, notes: Sequence[Note]) -> Call[tuple[NoteAnswer | StrandlineError, ...]]:
    """Many notes in one request: an answer or an error for each, in order. Raises TooMany, and sends none, if they are
    more than one request takes."""
    _check_count(notes)
    body = {"notes": [streams.note_body(each) for each in notes]}
    path = f"{stream_path(stream)}/notes"
    return (yield from ask("POST", path, _results_of(notes), body))


def notes_of_streams(
    notes: Sequence[tuple[str, Note]],
) -> Call[tuple[NoteAnswer | StrandlineError, ...]]:
    """The same over several streams: pairs of a stream and a note."""
    _check_count(notes)
    body = {"notes": [{"stream": check_name("stream", stream), **streams.note_body(each)} for stream, each in notes]}
    return (yield from ask("POST", "/v1/notes", _results_of([each for _, each in notes]), body))


def idle(stream: str, writer: str, epoch: int | None = None) -> Call[None]:
    yield from tell("POST", f"{writer_path(stream, writer)}/idle{query(epoch=epoch)}")


def close(stream: str, writer: str, epoch: int | None = None) -> Call[None]:
    yield from tell("DELETE", f"{writer_path(stream, writer)}{query(epoch=epoch)}")


# -- marks and windows -----------------------------------------------------------------------------------------


def marks(
    stream: str, *, key: str = DEFAULT_KEY, after: int = 0, limit: int | None = None, wait_ms: int = 0
) -> Call[MarksPage]:
    """The marks after a seq. With `wait_ms` (at most WAIT_BOUND_MS) it waits for the next one."""
    if wait_ms > WAIT_BOUND_MS:
        raise TooMany(what="milliseconds to wait", count=wait_ms, limit=WAIT_BOUND_MS)
    asked = query(key=check_key(key) or None, after=after, limit=limit, wait_ms=wait_ms or None)
    return (yield from ask("GET", f"{stream_path(stream)}/marks{asked}", reader_of(MarksPage), wait_ms=wait_ms))


def marks_at(
    stream: str, time: int, *, key: str = DEFAULT_KEY, wait_ms: int = 0, allow_incomplete: bool = False
) -> Call[MarksAt]:
    """The marks around a time, and where reading from it begins. With `wait_ms` (at most WAIT_BOUND_MS) it waits until
    everything older is there, of every writer unless `allow_incomplete`."""
    if wait_ms > WAIT_BOUND_MS:
        raise TooMany(what="milliseconds to wait", count=wait_ms, limit=WAIT_BOUND_MS)
    named, incomplete = check_key(key) or None, "true" if allow_incomplete else None
    asked = query(time=time, key=named, wait_ms=wait_ms or None, allow_incomplete=incomplete)
    return (yield from ask("GET", f"{stream_path(stream)}/marks/at{asked}", reader_of(MarksAt), wait_ms=wait_ms))


def evaluate(stream: str, *, key: str = DEFAULT_KEY) -> Call[EvaluatedReply]:
    """Makes a mark now, if one is possible."""
    path = f"{stream_path(stream)}/marks"
    return (yield from ask("POST", path, reader_of(EvaluatedReply), {"key": check_key(key)}))


def time_window(stream: str, position: Mapping[str, int], *, key: str = DEFAULT_KEY) -> Call[TimeWindow]:
    return (yield from window_of(stream, position, key=key))[0]


def window_of(
    stream: str, position: Mapping[str, int], *, key: str = DEFAULT_KEY, identity: str | None = None
) -> Call[tuple[TimeWindow, str]]:
    """The time window of a position, and the identity of the stream. Raises StreamRecreated if that is not the given
    one, of which the position is."""
    check_position(position)
    body: JsonObject = {"position": dict(position), "key": check_key(key)}
    if identity is not None:
        body["identity"] = identity
    return (yield from ask("POST", f"{stream_path(stream)}/time-window", streams.read_window, body))


def time_index(
    stream: str,
    segment: str,
    *,
    key: str = DEFAULT_KEY,
    from_offset: int = 0,
    token: int | None = None,
    limit: int | None = None,
) -> Call[TimeIndexPage]:
    """Offset and time within a segment: from an offset on, or, with the token of a call, from where that call ended."""
    asked = query(key=check_key(key) or None, from_offset=from_offset or None, token=token, limit=limit)
    path = f"{stream_path(stream)}/segments/{check_name('segment', segment)}/time-index{asked}"
    return (yield from ask("GET", path, reader_of(TimeIndexPage)))


def journal(stream: str, *, after: int = 0, limit: int | None = None) -> Call[JournalPage]:
    """What happened to a stream, after a seq of its journal."""
    path = f"{stream_path(stream)}/journal{query(after=after or None, limit=limit)}"
    return (yield from ask("GET", path, reader_of(JournalPage)))


# -- operations ------------------------------------------------------------------------------------------------


def health() -> Call[None]:
    """Whether the process answers; raises the error if not."""
    yield from tell("GET", "/healthz")


def ready() -> Call[None]:
    """Whether it can serve: its store is reachable and current. Raises the error if not."""
    yield from tell("GET", "/readyz")


def status(
    streams: Sequence[str] = (),
    groups: Sequence[str] = (),
    *,
    after: str = "",
    limit: int | None = None,
    trouble: bool = False,
) -> Call[StatusPage]:
    """The status of streams, reader groups and the controller: of all streams, by name, or of these streams and groups.
    With `trouble`, of streams in trouble, the worst first, at most `limit` of them."""
    named = "".join(f"&stream={check_name('stream', stream)}" for stream in streams)
    named += "".join(f"&group={check_name('group', group)}" for group in groups)
    begin = check_name("stream", after) if after else None
    asked = f"{query(after=begin, limit=limit, trouble='true' if trouble else None)}{named}"
    path = f"/v1/status{asked if asked.startswith('?') else asked.replace('&', '?', 1)}"
    return (yield from ask("GET", path, reader_of(StatusPage)))


def controllers() -> Call[ControllersReply]:
    """The controllers that serve the store."""
    return (yield from ask("GET", "/v1/controllers", reader_of(ControllersReply)))


# -- parts of all calls ----------------------------------------------------------------------------------------


def stream_path(stream: str) -> str:
    return f"/v1/streams/{check_name('stream', stream)}"


def writer_path(stream: str, writer: str) -> str:
    return f"{stream_path(stream)}/writers/{check_name('writer', writer)}"


def query(**asked: int | str | None) -> str:
    """The query: numbers, and keys that were checked, so that nothing needs escaping."""
    given = [f"{name}={value}" for name, value in asked.items() if value is not None]
    return f"?{'&'.join(given)}" if given else ""


def ask(
    method: str,
    path: str,
    read: Callable[[bytes], Value],
    body: JsonObject | None = None,
    *,
    repeatable: bool = True,
    wait_ms: int = 0,
) -> Call[Value]:
    """One request. `read` reads its answer. Raises the typed error, or UnexpectedAnswer."""
    request = Request(method=method, path=path, body=body, repeatable=repeatable, wait_ms=wait_ms)
    response = yield request
    if not 200 <= response.status < 300:
        raise error_of(request, response)
    try:
        return read(response.body)
    except (ValueError, StrandlineError) as error:
        raise _unexpected(request, response, str(error)) from error


def tell(method: str, path: str, body: JsonObject | None = None) -> Call[None]:
    """One request, whose answer has no content."""
    request = Request(method=method, path=path, body=body, repeatable=True)
    response = yield request
    if not 200 <= response.status < 300:
        raise error_of(request, response)


def ask_whether_new(path: str, body: JsonObject) -> Call[bool]:
    """One request that creates something unless it exists; returns whether it is new."""
    request = Request(method="PUT", path=path, body=body, repeatable=True)
    response = yield request
    if response.status not in (200, 201):
        raise error_of(request, response)
    return response.status == 201


def error_of(request: Request, response: Response) -> StrandlineError:
    """The error of a response; UnexpectedAnswer if it has none that is known."""
    try:
        problem = read(dict, response.body)
    except ValueError as error:
        return _unexpected(request, response, str(error))
    if "code" in problem:
        return from_problem({**problem, "status": response.status}, call=request.name)
    return _unexpected(request, response, "it is not a problem with a code")


def _unexpected(request: Request, response: Response, reason: str) -> UnexpectedAnswer:
    return UnexpectedAnswer(call=request.name, answer_status=response.status, answer_code=None, reason=reason)


def _check_count(notes: Sequence[object]) -> None:
    if len(notes) > NOTES_PER_REQUEST:
        raise TooMany(what="notes in a request", count=len(notes), limit=NOTES_PER_REQUEST)


def _results_of(notes: Sequence[Note]) -> Callable[[bytes], tuple[NoteAnswer | StrandlineError, ...]]:
    return partial(streams.read_note_results, keyed=[streams.is_keyed(each) for each in notes])
