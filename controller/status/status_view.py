"""The status as pages and routes ask for it, and what it asks of other controllers where several serve one store."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from controller.cluster.records import ControllerRow, Kind
from controller.slices import Slices
from controller.status.overview import GroupsFound, Overview, StreamsFound, Summary
from controller.status.parts import PartAsked, Serving
from strandline.access import EVERYTHING, fits
from strandline.wire.status import StatusPart


@dataclass(frozen=True, slots=True)
class Viewer:
    """On whose behalf the status is asked for: the value of the header with the token, and the token's pattern."""

    authorization: bytes | None = field(default=None, repr=False)
    pattern: str = EVERYTHING

    def may_see(self, *streams: str) -> bool:
        return self.pattern == EVERYTHING or all(fits(self.pattern, stream) for stream in streams)


class StatusView(Protocol):
    """The status of all streams and groups of a store, as it is shown to one viewer.

    What is shared with other callers may be a second old. A controller alone answers from what it has. Where several
    serve a store, each is asked for what it owns, and what could not be asked for in time is named with the code of a
    problem.
    """

    async def overview(self, *, stored: bool = True) -> Overview:
        """All streams and groups. A controller alone shows those that others may see too: leave them out. Raises
        StoreUnavailable. Without `stored`, a controller alone does not read the store."""
        ...

    async def summary(self, pattern: str, *, stored: bool = True) -> Summary:
        """The same in numbers, of the streams whose names fit a pattern, and of groups that read no others."""
        ...

    async def of_streams(self, names: Iterable[str]) -> StreamsFound:
        """These streams, in this order, without those that do not exist."""
        ...

    async def of_groups(self, streams: Collection[str], names: Collection[str] = ()) -> GroupsFound:
        """The groups that read any of these streams, and those of these names. Raises StoreUnavailable."""
        ...

    def served_by(self, kind: Kind, name: str) -> str | None:
        """The name of the controller that serves a stream or group; None if it is not known, or if there is one."""
        ...

    def slices(self) -> Slices:
        """Slices for further work on a result."""
        ...


class StatusViews(Protocol):
    """Where views come from."""

    def seen_by(self, viewer: Viewer) -> StatusView: ...


class Others(Protocol):
    """The other controllers of the store."""

    def serving(self, kind: Kind, name: str) -> Serving:
        """Who serves a stream or group, as far as is known here. Raises StoreUnavailable without a lease."""
        ...

    def name_of(self, controller: Serving) -> str | None:
        """The name of a controller; None for NOBODY."""
        ...

    def speak_for(self, viewer: Viewer) -> None:
        """From now on, what this task asks of other controllers for its own groups is asked with the viewer's token."""
        ...

    async def part(self, controller: ControllerRow, asked: PartAsked, viewer: Viewer) -> StatusPart:
        """What a controller answers about a few streams and groups. Raises the problem that it answers, NotOwner if it
        was not reached, or OwnerUndecided without an answer that can be read."""
        ...
