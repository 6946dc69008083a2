"""The status of a whole store that several controllers serve: each is asked for what it owns.

    names of the store ──► divided among their controllers ──► own part, and a call to each of the others ──► together

What a controller has not told in time is named, with the code of a problem.

Parts are put together before they are ranked: which stream is in the worst trouble is a question about all of them. The
caller's token goes along, so that controllers need no secret of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from controller.clock import Clock
from controller.cluster.records import Kind
from controller.slices import Slices
from controller.status.group_members import GroupDetails
from controller.status.overview import (
    GroupsFound,
    Overview,
    StreamsFound,
    Summary,
    UnreadGroup,
    in_order_of_backlog,
    in_order_of_trouble,
    reading,
    summarize,
)
from controller.status.parts import Nearby, PartAsked, Serving, StatusPart, divided, in_order, together, untold
from controller.status.single_flight import SingleFlight
from controller.status.status_codec import Details, NotUnderstood, decode_details, decode_part
from controller.status.status_reader import StatusReader
from controller.status.status_view import Others, Viewer
from controller.status.stream_status import StreamDetails
from controller.status.writer_status import WriterDetails
from strandline.errors import NotOwner, OwnerUndecided, StoreUnavailable, StrandlineError

STATUS_ASK_MS: Final = 1_000  # how long another controller is waited for that is asked for its part


class _Asked(NamedTuple):
    """One stream or group of which another controller may be asked, and the answer's shape."""

    shape: type[Any]
    kind: Kind
    name: str
    path: str
    viewer: Viewer


class JointStatus:
    """What this controller and the others tell together. Callers with the same token share results."""

    def __init__(self, own: StatusReader, others: Others, clock: Clock, stopwatch: Callable[[], float]) -> None:
        """`stopwatch` returns seconds of work: what only waits for others may be asked for again soon."""
        self.own = own
        self.others = others
        self.overviews = SingleFlight(self._read_all, clock, stopwatch)
        self.summaries = SingleFlight(self._sum_up, clock, stopwatch)
        self.details = SingleFlight(self._ask, clock, stopwatch)
        self._clock = clock

    def seen_by(self, viewer: Viewer) -> JointView:
        return JointView(self, viewer)

    def forget(self) -> None:
        """Drops all shared results."""
        self.own.forget()
        for each in (self.overviews, self.summaries, self.details):
            each.forget()

    async def of_all(
        self, viewer: Viewer, streams: Iterable[str], groups: Iterable[str], slices: Slices
    ) -> tuple[StatusPart, Mapping[str, str]]:
        """What all controllers tell of these, and by whom each stream is served, as far as that is known."""
        served: list[tuple[Kind, str, Serving]] = []
        for kind, names in ((Kind.STREAM, streams), (Kind.GROUP, groups)):
            for name in names:
                served.append((kind, name, self.others.serving(kind, name)))
                await slices.turn()
        asking = (self._part(controller, asked, viewer, slices) for controller, asked in divided(served))
        parts = await asyncio.gather(*asking)
        named = ((name, self.others.name_of(controller)) for kind, name, controller in served if kind is Kind.STREAM)
        return together(parts), {name: controller for name, controller in named if controller is not None}

    async def _part(self, controller: Serving, asked: PartAsked, viewer: Viewer, slices: Slices) -> StatusPart:
        """The part of one controller; what it does not tell in time is unread."""
        if controller is Nearby.HERE:
            self.others.speak_for(viewer)
            return await self.own.part(asked)
        if controller is Nearby.NOBODY:
            return untold(asked, NotOwner.code)
        try:
            async with asyncio.timeout(STATUS_ASK_MS / 1000):
                return await decode_part(await self.others.part(controller, asked, viewer), slices)
        except (TimeoutError, NotUnderstood):
            return untold(asked, OwnerUndecided.code)
        except StrandlineError as error:
            return untold(asked, error.code)

    async def _read_all(self, viewer: Viewer, slices: Slices) -> Overview:
        names = [name for name in await self.own.names() if viewer.may_see(name)]
        groups = {name: read for name, read in (await self.own.group_names()).items() if viewer.may_see(*read)}
        part, served_by = await self.of_all(viewer, names, groups, slices)
        return Overview(
            at=self._clock.now(),
            streams=await in_order_of_trouble(part.streams, slices),
            unread=part.unread,
            groups=in_order_of_backlog(groups_of(part, groups)),
            served_by=served_by,
        )

    async def _sum_up(self, viewer: Viewer, slices: Slices) -> Summary:
        overview = await self.overviews.get(viewer)
        return await summarize(overview, overview.groups, slices)

    async def _ask(self, asked: _Asked, _: Slices) -> Any:
        try:
            async with asyncio.timeout(STATUS_ASK_MS / 1000):
                answer = await self.others.ask(asked.kind, asked.name, asked.path, asked.viewer)
                return None if answer is None else decode_details(asked.shape, answer)
        except (TimeoutError, NotUnderstood) as error:
            reason = str(error) or f"its controller has not answered for {STATUS_ASK_MS} ms"
            raise NotOwner(**{asked.kind: asked.name}, reason=reason) from None


class JointView:
    """What one viewer sees of it."""

    def __init__(self, status: JointStatus, viewer: Viewer) -> None:
        self._status = status
        self._viewer = viewer

    async def overview(self, *, stored: bool = True) -> Overview:
        _check_stored(stored=stored)
        return await self._status.overviews.get(self._viewer)

    async def summary(self, pattern: str, *, stored: bool = True) -> Summary:
        """The numbers of what the viewer may see: the pattern is that of the viewer."""
        _check_stored(stored=stored)
        return await self._status.summaries.get(self._viewer)

    async def of_streams(self, names: Iterable[str]) -> StreamsFound:
        names = list(names)
        part, _ = await self._status.of_all(self._viewer, names, (), self.slices())
        return StreamsFound(streams=in_order(names, part.streams), unread=part.unread)

    async def of_groups(self, streams: Collection[str]) -> GroupsFound:
        groups = reading(await self._status.own.group_names(), streams)
        allowed = {name: read for name, read in groups.items() if self._viewer.may_see(*read)}
        part, _ = await self._status.of_all(self._viewer, (), allowed, self.slices())
        return groups_of(part, allowed)

    async def of_stream(self, name: str) -> StreamDetails:
        path = f"/v1/cluster/streams/{name}"
        of_all = await self._details(StreamDetails, Kind.STREAM, name, path)
        return await self._status.own.of_stream(name) if of_all is None else of_all

    async def of_writer(self, stream: str, writer: str) -> WriterDetails:
        path = f"/v1/cluster/streams/{stream}/writers/{writer}"
        of_all = await self._details(WriterDetails, Kind.STREAM, stream, path)
        return await self._status.own.of_writer(stream, writer) if of_all is None else of_all

    async def of_group(self, name: str) -> GroupDetails:
        path = f"/v1/cluster/reader-groups/{name}"
        of_all = await self._details(GroupDetails, Kind.GROUP, name, path)
        return await self._status.own.of_group(name) if of_all is None else of_all

    async def _details(self, shape: type[Details], kind: Kind, name: str, path: str) -> Details | None:
        """What another controller tells of a stream or group; None if it is served here."""
        self._status.others.speak_for(self._viewer)
        of_all: Details | None = await self._status.details.get(_Asked(shape, kind, name, path, self._viewer))
        return of_all

    def served_by(self, kind: Kind, name: str) -> str | None:
        return self._status.others.name_of(self._status.others.serving(kind, name))

    def slices(self) -> Slices:
        return self._status.own.slices()


def groups_of(part: StatusPart, groups: Mapping[str, Sequence[str]]) -> GroupsFound:
    """The groups of a part; those without a status with the streams that they read by the store."""
    unread = {name: UnreadGroup(code, groups[name]) for name, code in part.unread_groups.items() if name in groups}
    return GroupsFound(groups=tuple(part.groups), unread=unread)


def _check_stored(*, stored: bool) -> None:
    if not stored:
        raise StoreUnavailable(reason="the store, which has the names of all streams, does not answer")
