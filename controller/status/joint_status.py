"""The status of a whole store that several controllers serve: each is asked for what it owns.

    names of the store ──► divided among their controllers ──► own part, and `GET /v1/status` of the others ──► together

What a controller has not answered in time is named, with the code of a problem.

Parts are put together before they are ranked: which stream is in the worst trouble is a question about all of them. The
caller's token goes along, so that controllers need no secret of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from controller.clock import Clock
from controller.cluster.records import Kind
from controller.slices import Slices
from controller.status.overview import (
    GroupsFound,
    Overview,
    StreamsFound,
    Summary,
    groups_of,
    in_order_of_backlog,
    in_order_of_trouble,
    reading,
    summarize,
)
from controller.status.parts import Nearby, PartAsked, Serving, divided, in_order, together, unread
from controller.status.single_flight import SingleFlight
from controller.status.status_reader import StatusReader
from controller.status.status_view import Others, Viewer
from strandline.errors import NotOwner, OwnerUndecided, StoreUnavailable, StrandlineError
from strandline.wire.status import StatusPart

STATUS_ASK_MS: Final = 1_000  # how long another controller is waited for that is asked for its part


class JointStatus:
    """What this controller and the others answer together. Callers with the same token share results."""

    def __init__(self, own: StatusReader, others: Others, clock: Clock) -> None:
        self.own = own
        self.others = others
        self.overviews = SingleFlight(self._read_all, clock)
        self.summaries = SingleFlight(self._sum_up, clock)
        self._clock = clock

    def seen_by(self, viewer: Viewer) -> JointView:
        self.others.speak_for(viewer)
        return JointView(self, viewer)

    async def of_all(
        self, viewer: Viewer, streams: Iterable[str], groups: Iterable[str], slices: Slices
    ) -> tuple[StatusPart, Mapping[str, str]]:
        """What all controllers answer about these, and by whom each stream is served, as far as that is known."""
        served: list[tuple[Kind, str, Serving]] = []
        for kind, names in ((Kind.STREAM, streams), (Kind.GROUP, groups)):
            for name in names:
                served.append((kind, name, self.others.serving(kind, name)))
                await slices.turn()
        asking = (self._part(controller, asked, viewer) for controller, asked in divided(served).items())
        parts = await asyncio.gather(*asking)
        named = ((name, self.others.name_of(controller)) for kind, name, controller in served if kind is Kind.STREAM)
        return together(parts), {name: controller for name, controller in named if controller is not None}

    async def _part(self, controller: Serving, asked: PartAsked, viewer: Viewer) -> StatusPart:
        """The part of one controller; what it does not answer in time is unread."""
        if controller is Nearby.HERE:
            return await self.own.part(asked)
        if controller is Nearby.NOBODY:
            return unread(asked, NotOwner.code)
        calls, answered, code = asked.calls(), list[StatusPart](), OwnerUndecided.code
        try:
            async with asyncio.timeout(STATUS_ASK_MS / 1000):
                for each in calls:
                    answered.append(await self.others.part(controller, each, viewer))
        except TimeoutError:
            pass
        except StrandlineError as error:
            code = error.code
        return together([*answered, *(unread(each, code) for each in calls[len(answered) :])])

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

    async def of_groups(self, streams: Collection[str], names: Collection[str] = ()) -> GroupsFound:
        groups = reading(await self._status.own.group_names(), streams, names)
        allowed = {name: read for name, read in groups.items() if self._viewer.may_see(*read)}
        part, _ = await self._status.of_all(self._viewer, (), allowed, self.slices())
        return groups_of(part, allowed)

    def served_by(self, kind: Kind, name: str) -> str | None:
        return self._status.others.name_of(self._status.others.serving(kind, name))

    def slices(self) -> Slices:
        return self._status.own.slices()


def _check_stored(*, stored: bool) -> None:
    if not stored:
        raise StoreUnavailable(reason="the store, which has the names of all streams, does not answer")
