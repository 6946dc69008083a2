"""Views of streams for the reader groups of this controller, wherever the streams are: each owner is asked once.

    questions ──► by owner ──► this controller          ──► views
                               POST /v1/cluster/windows
                               at each of the others, side by side

It does no harm to ask twice. So an owner that is away, or is none any more, is looked for again for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, TypeVar

from msgspec.structs import replace

from controller.cluster.records import ControllerRow, Kind
from controller.groups.stream_views import GroupPlace, GroupStanding, StreamQuestion, StreamView, StreamViews
from controller.http.forwarding.owners import Owners
from controller.http.forwarding.peers import NoAnswer, NotTaken, PassedCall, Peers
from controller.http.forwarding.subjects import Subject
from strandline.core.cut import Cut
from strandline.core.segment import Segment, SegmentGraph
from strandline.errors import (
    Denied,
    NotOwner,
    Overloaded,
    Refused,
    StoreCorrupt,
    StrandlineError,
    StreamAway,
    StreamLoading,
    UnknownPath,
    UnknownStream,
)
from strandline.wire.problems import from_problem
from strandline.wire.shapes import read
from strandline.wire.stream_views import StreamViewReply, StreamViewsReply

VIEWED_STREAMS: Final = 10_000  # of other controllers: under which fence they were seen last

PEER_VIEW_MS: Final = 8_000  # how long another controller may take for a view of its streams, for a reader group

WINDOWS: Final = "/v1/cluster/windows"
# The token of the caller whose call is being answered: an owner checks it, as for a call that is passed on.
TOKEN: Final[ContextVar[bytes | None]] = ContextVar("token", default=None)

Target: TypeAlias = ControllerRow | None  # None: this controller
Value = TypeVar("Value")
_ANSWERS: Final = (Refused, Denied, StreamLoading, Overloaded, StoreCorrupt)  # what an owner says to the caller


class _NotAsked(Exception):
    """Nobody has answered, and the reason."""


class StreamsOfAll:
    """Views of the streams of all controllers."""

    def __init__(self, own: StreamViews, owners: Owners, peers: Peers) -> None:
        self._own = own
        self._owners = owners
        self._peers = peers
        self._fences: dict[str, int] = {}  # by stream, the one that was seen last stands last

    def ready(self, streams: Iterable[str]) -> bool:
        return all(self._owners.known(_subject(stream), None) is None for stream in streams)

    async def graphs(self, identities: Mapping[str, str]) -> Mapping[str, SegmentGraph]:
        views = await self.ask({stream: StreamQuestion(identity=each) for stream, each in identities.items()})
        return {stream: view.graph for stream, view in views.items()}

    async def ask(self, questions: Mapping[str, StreamQuestion]) -> Mapping[str, StreamView]:
        until = self._owners.over_at()
        views: dict[str, StreamView] = {}
        open_questions = {stream: self._with_fence(stream, question) for stream, question in questions.items()}
        while open_questions:
            away = await self._attempt(open_questions, views)
            open_questions = {stream: question for stream, question in open_questions.items() if stream in away}
            if away and not await self._owners.pause(until):
                stream, reason = next(iter(away.items()))
                raise StreamAway(stream=stream, reason=reason)
        return {stream: views[stream] for stream in questions}

    async def _attempt(self, questions: Mapping[str, StreamQuestion], views: dict[str, StreamView]) -> dict[str, str]:
        """Asks each owner for its views; returns the streams for which nobody has answered, and why."""
        targets, away = await self._targets(questions)
        parts = {
            target: {stream: questions[stream] for stream, each in targets.items() if each == target}
            for target in dict.fromkeys(targets.values())
        }
        asked = [self._ask_owner(target, part) for target, part in parts.items()]
        for part, found_part in zip(parts.values(), await _all(asked), strict=True):
            if isinstance(found_part, _NotAsked):
                away.update(dict.fromkeys(part, str(found_part)))
            elif isinstance(found_part, BaseException):
                if isinstance(found_part, UnknownStream):
                    self._fences.pop(found_part.stream, None)
                raise found_part
            else:
                views.update(found_part)
        return away

    async def _targets(self, streams: Iterable[str]) -> tuple[dict[str, Target], dict[str, str]]:
        """The owner of each stream. Those that are handed over are waited for; second are those that have none, and
        why."""
        found, held = self._owners.all_known(map(_subject, streams))
        found |= await self._owners.find_all(held)
        targets: dict[str, Target] = {}
        away = {}
        for subject, owner in found.items():
            if isinstance(owner, NotOwner):
                away[subject.name] = owner.reason
            elif isinstance(owner, StrandlineError):
                raise owner
            else:
                targets[subject.name] = owner
        return targets, away

    async def _ask_owner(self, owner: Target, questions: Mapping[str, StreamQuestion]) -> Mapping[str, StreamView]:
        """The views of one owner's streams. Raises _NotAsked, or what the owner says."""
        if owner is None:
            try:
                return await self._own.ask(questions)
            except NotOwner as error:
                raise _NotAsked(error.reason) from None
        call = PassedCall.of_ours("POST", WINDOWS, TOKEN.get(), {"streams": questions})
        try:
            async with asyncio.timeout(PEER_VIEW_MS / 1000), self._peers.ask(owner, call) as answer:
                status, body = answer.status, await answer.whole()
        except (NotTaken, NoAnswer) as error:
            raise _NotAsked(str(error)) from None
        except TimeoutError:
            raise _NotAsked(f"its controller has not answered for {PEER_VIEW_MS} ms") from None
        try:
            if status != 200:
                raise _error_of(body)
            replies = read(StreamViewsReply, body).streams
            views = {stream: _view(replies[stream]) for stream in questions}
        except (ValueError, KeyError) as error:
            raise _NotAsked(f"its controller gave an answer that is none: {error}") from None
        for stream, view in views.items():
            self._fences[stream] = max(view.fence, self._fences.pop(stream, 0))
            if len(self._fences) > VIEWED_STREAMS:
                del self._fences[next(iter(self._fences))]
        return views

    def _with_fence(self, stream: str, question: StreamQuestion) -> StreamQuestion:
        fence = self._fences.get(stream)
        return question if fence is None else replace(question, fence=fence)


async def _all(work: Sequence[Coroutine[Any, Any, Value]]) -> list[Value | BaseException]:
    """The results, or exceptions, of work that is done side by side."""
    if len(work) == 1:  # as mostly: no task is needed
        try:
            return [await work[0]]
        except (StrandlineError, _NotAsked) as error:
            return [error]
    return await asyncio.gather(*work, return_exceptions=True)


def _subject(stream: str) -> Subject:
    return Subject(Kind.STREAM, stream)


def _error_of(body: bytes) -> StrandlineError | _NotAsked:
    """What an owner says in place of views, or that it cannot say anything now."""
    error = from_problem(read(dict[str, Any], body))
    if isinstance(error, _ANSWERS) and not isinstance(error, UnknownPath):
        return error
    return _NotAsked(str(error))


def _view(reply: StreamViewReply) -> StreamView:
    segments = (
        Segment(id=each.id, created_at=0, predecessors=each.predecessors, final_offset=each.final_offset)
        for each in reply.segments
    )
    place = reply.place
    return StreamView(
        identity=reply.identity,
        graph=SegmentGraph(segments, open=reply.open),
        fence=reply.fence,
        newest=reply.newest,
        place=None if place is None else GroupPlace(place.position, place.windows, GroupStanding(place.standing)),
        passed=reply.passed,
        start=None if reply.start is None else Cut(reply.start),
        bounds=reply.bounds,
    )
