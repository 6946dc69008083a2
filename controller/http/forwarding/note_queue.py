"""Notes of several callers that go to their owner together: while a request is under way, the next one forms.

So a note that came to the wrong controller costs a part of a request, not a request. Only notes with one token are in a
request, since the owner judges it as a whole. Two notes of one writer never are: of a request with several, the owner
takes those that it had before as repeated, which is true only of notes that were sent together before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import msgspec

from controller.cluster.records import ControllerRow
from controller.http.forwarding.peers import Headers, NoAnswer, NotTaken, PassedCall, Peers
from controller.http.notes import OF_SEVERAL_STREAMS
from strandline.errors import Overloaded
from strandline.wire.streams import NoteResults

PASSED_NOTES: Final = 1_024  # of several callers, in one request to their owner
PASSED_NOTES_BYTES: Final = 512 * 1024  # of these notes; further ones wait for the next request

Line: TypeAlias = tuple[int, str, bytes | None]  # the owner, its address, and the token as the caller sent it

_results: Final = msgspec.json.Decoder(NoteResults)


@dataclass(frozen=True, slots=True)
class Passed:
    """What an owner says to notes: a body for each, or, with a `status` other than 200, one for all."""

    status: int
    bodies: tuple[msgspec.Raw, ...]
    headers: Headers  # of the answer
    time: int | None
    client_address: str | None


@dataclass(slots=True)
class _Waiting:
    whose: tuple[str, str]
    note: bytes
    answer: asyncio.Future[Passed] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


async def send_notes(peers: Peers, owner: ControllerRow, token: bytes | None, notes: list[bytes]) -> Passed:
    """Sends notes that name their streams, and returns what the owner says. Raises NotTaken, NoAnswer, Overloaded."""
    shown = () if token is None else ((b"authorization", token),)
    headers: Headers = ((b"content-type", b"application/json"), *shown)
    call = PassedCall("POST", OF_SEVERAL_STREAMS.encode(), headers, b'{"notes":[%s]}' % b",".join(notes))
    async with peers.ask(owner, call) as answer:
        body = await answer.whole()
        if answer.status != 200:
            return Passed(answer.status, (msgspec.Raw(body),), answer.headers, answer.time, answer.client_address)
        try:
            results = _results.decode(body).results
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NoAnswer(f"its answer was not understood: {error}") from None
        if len(results) != len(notes):
            raise NoAnswer(f"its answer has {len(results)} results for {len(notes)} notes")
        return Passed(200, results, answer.headers, answer.time, answer.client_address)


class NoteQueue:
    """The notes on their way to owners: for each owner and token one request at a time."""

    def __init__(self, peers: Peers, limit: int) -> None:
        """`limit` notes may be on their way to one owner."""
        self._peers = peers
        self._limit = limit
        self._lines: dict[Line, deque[_Waiting]] = {}  # there while a request is under way
        self._sending: set[asyncio.Task[None]] = set()

    async def send(self, owner: ControllerRow, token: bytes | None, whose: tuple[str, str], note: bytes) -> Passed:
        """Sends a note, that of `whose` stream and writer. Raises NotTaken, NoAnswer or Overloaded."""
        waiting = _Waiting(whose, note)
        line = (owner.id, owner.address, token)
        queue = self._lines.get(line)
        if queue is not None:
            if len(queue) >= self._limit:
                what = "notes are waiting to be passed on"
                raise Overloaded(waiting=len(queue), limit=self._limit, what=what)
            queue.append(waiting)
        else:
            self._lines[line] = deque([waiting])
            task = asyncio.create_task(self._send_all(owner, line))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        return await waiting.answer

    async def close(self) -> None:
        """Ends what is under way: its callers hear that it is not known."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def _send_all(self, owner: ControllerRow, line: Line) -> None:
        queue = self._lines[line]
        batch: list[_Waiting] = []
        try:
            while queue:
                batch = _taken(queue)
                await self._send_batch(owner, line[2], batch)
        finally:
            del self._lines[line]
            for waiting in (*batch, *queue):  # after a failure of ours, or at the end
                if not waiting.answer.done():
                    waiting.answer.set_exception(NoAnswer("this controller stopped waiting"))

    async def _send_batch(self, owner: ControllerRow, token: bytes | None, batch: list[_Waiting]) -> None:
        try:
            passed = await send_notes(self._peers, owner, token, [each.note for each in batch])
        except (NotTaken, NoAnswer, Overloaded) as error:
            for each in batch:
                if not each.answer.done():
                    each.answer.set_exception(copy(error))  # tracebacks of many would grow in one
            return
        for place, each in enumerate(batch):
            if not each.answer.done():  # else its caller has left
                body = passed.bodies[place if passed.status == 200 else 0]
                each.answer.set_result(replace(passed, bodies=(body,)))


def _taken(queue: deque[_Waiting]) -> list[_Waiting]:
    """Takes the notes of the next request out of the queue, up to the second note of a writer."""
    taken: list[_Waiting] = []
    writers: set[tuple[str, str]] = set()
    size = 0
    while queue and len(taken) < PASSED_NOTES:
        size += len(queue[0].note)
        if taken and (queue[0].whose in writers or size > PASSED_NOTES_BYTES):
            break
        waiting = queue.popleft()
        writers.add(waiting.whose)
        taken.append(waiting)
    return taken
