"""Direct answers: a connection answers notes and windows itself, without the application and a task for each.

    connection ──► Direct.answer ──► a window goes out at once, a note's answer with its commit
                        └─ False ──► the application answers, as it does every other call

What may be asked and what is refused is said elsewhere: by the middleware, `notes.py` and `windows.py`, whose functions
the application calls too. A call that is not well made, or that memory alone does not answer, is left to the
application before it has changed anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from starlette.types import Scope

from controller.commit.group_commit import Durable
from controller.controller import Controller
from controller.http.hot_calls import STREAMS
from controller.http.middleware import Admission, Middleware
from controller.http.notes import NOTES, take_directly
from controller.http.problems import answer_with
from controller.http.request_bodies import is_json
from controller.http.responses import json_lines
from controller.http.windows import TIME_WINDOW, find_directly
from controller.limits import SMALL_BODY_BYTES
from controller.records.operator_log import REQUEST_ID
from strandline.errors import StoreUndecided, StrandlineError

# Gives the answer's JSON and, if it has to wait for a commit, what is done then; None if the application has to answer.
Found: TypeAlias = tuple[bytes, Durable | None] | None

_CALLS: Final = {NOTES: take_directly, TIME_WINDOW: find_directly}


class WholeRequest(Protocol):
    """A request that has come whole."""

    @property
    def scope(self) -> Any: ...

    @property
    def body(self) -> bytes | bytearray: ...

    def reply(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None: ...

    def reply_with(self, lines: bytes, body: bytes) -> None: ...


class DirectCall:
    """The call that a head makes and, once the head was let in, why: then an equal one need not be checked again."""

    __slots__ = ("admitted", "find", "stream")

    def __init__(self, find: Callable[[str, Controller, Scope, bytes], Found], stream: str) -> None:
        self.find = find
        self.stream = stream
        self.admitted: Admission | None = None


def direct_call(scope: Mapping[str, Any]) -> DirectCall | None:
    """The call that a request makes, by its head, if a direct answer is possible: one with a small body of JSON."""
    path: str = scope["path"]
    if scope["method"] != "POST" or not path.startswith(STREAMS):
        return None
    end = path.find("/", len(STREAMS))
    find = _CALLS.get(path[end:])
    if find is None or end == len(STREAMS) or not is_json(scope):
        return None
    for name, value in scope["headers"]:
        if name == b"content-length":  # the parser has refused one that is no number
            return DirectCall(find, path[len(STREAMS) : end]) if int(value) <= SMALL_BODY_BYTES else None
    return None


class _Waiting(NamedTuple):
    """An answer that goes out once its commit is durable."""

    exchange: WholeRequest
    controller: Controller
    request_id: bytes
    body: bytes


class Direct:
    """Answers calls for which memory and the next commit are enough."""

    def __init__(self, envelope: Middleware) -> None:
        self._envelope = envelope
        self._waiting: dict[Durable, list[_Waiting]] = {}

    def answer(self, called: DirectCall, exchange: WholeRequest) -> bool:
        """Answers a request, now or when it is durable; False if the application has to do it."""
        envelope, scope, known = self._envelope, exchange.scope, called.admitted
        if known is None:
            controller, request_id = envelope.begin(scope)
        elif envelope.admits_again(known):
            controller, request_id = known.controller, envelope.new_id()
        else:
            return False
        before = REQUEST_ID.set(request_id)
        try:
            if known is None:
                envelope.check(scope, controller)
                envelope.admit(scope, controller)
                called.admitted = envelope.admitted(scope, controller)
            if not envelope.is_here(scope):
                return False
            found = called.find(called.stream, controller, scope, bytes(exchange.body))
            if found is None:
                return False
        except StrandlineError as error:
            self._refuse(exchange, controller, request_id, error)
            return True
        except Exception as error:
            self._refuse(exchange, controller, request_id, envelope.failed(scope, error))
            return True
        finally:
            REQUEST_ID.reset(before)
        body, durable = found
        if durable is None:
            self._reply((_Waiting(exchange, controller, request_id, body),))
        else:
            waiting = self._waiting.get(durable)
            if waiting is None:
                waiting = self._waiting[durable] = []
                durable.add_done_callback(self._settle)
            waiting.append(_Waiting(exchange, controller, request_id, body))
        return True

    def _settle(self, durable: Durable) -> None:
        """Answers all calls of a commit that has ended."""
        waiting = self._waiting.pop(durable)
        error = StoreUndecided(reason="the controller ends") if durable.cancelled() else durable.exception()
        if isinstance(error, StrandlineError):
            for exchange, controller, request_id, _ in waiting:
                self._refuse(exchange, controller, request_id, error)
        else:
            self._reply(waiting)

    def _reply(self, waiting: Sequence[_Waiting]) -> None:
        controller = waiting[0].controller  # that of all of them
        told, now = self._envelope.told, controller.clock.now()
        controller.counts.responses[200] += len(waiting)
        for exchange, _, request_id, body in waiting:
            time, more = told(exchange.scope, now)
            exchange.reply_with(json_lines(len(body), time, request_id, more), body)

    def _refuse(
        self, exchange: WholeRequest, controller: Controller, request_id: bytes, error: StrandlineError
    ) -> None:
        response = answer_with(exchange.scope, error)
        headers = self._envelope.headers(exchange.scope, controller, response.raw_headers, request_id)
        controller.counts.responses[response.status_code] += 1
        exchange.reply(response.status_code, headers, bytes(response.body))
