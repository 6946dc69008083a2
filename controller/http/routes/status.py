"""The status of streams, reader groups and the controller, in one answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Query

from controller.http.callers import Calling, Over, permit
from controller.http.dependencies import DEFAULT_LIMIT, After, Limit, QueryName, Served, names_page
from controller.http.shapes import shaped_router
from controller.lifecycle import Controller
from controller.operators.overview import GroupsFound, StreamsFound, Summary, summarize
from controller.operators.stream_status import by_trouble
from strandline.access import EVERYTHING, Grant, Role
from strandline.errors import InvalidParameter, StoreUnavailable, UnknownStream
from strandline.names import check_name
from strandline.wire import status as wire

router = shaped_router("operations")


@dataclass(frozen=True, slots=True)
class _StatusPage:
    streams: Sequence[wire.StreamStatus]
    next: str | None = None
    unread: Mapping[str, str] = field(default_factory=dict)


@router.get(
    "/v1/status",
    summary="Show the status of streams, groups and the controller",
    dependencies=permit(Role.READER, Over.EACH),
)
async def get_status(
    controller: Served,
    caller: Calling,
    stream: Annotated[list[QueryName], Query(description="only these streams, and their groups", default_factory=list)],
    group: Annotated[
        list[QueryName], Query(description="only these reader groups, beside those", default_factory=list)
    ],
    after: After = "",
    limit: Limit = DEFAULT_LIMIT,
    trouble: Annotated[bool, Query(description="only streams in trouble, the worst first: one page of them")] = False,
) -> wire.StatusPage:
    if trouble and after:  # their order changes from one time to the next
        raise InvalidParameter(name="after", value=after, wanted="left out where those in trouble are asked for")
    reason, stored = await controller.readiness()
    status = controller.status
    may_see = caller.may_see
    named = sorted({check_name("group", name) for name in group})
    if stream or named:
        names = sorted({check_name("stream", name) for name in stream})
        caller.check_streams(Role.READER, names)
        found = await status.of_streams(names, stored=stored)
        groups = await status.of_groups(names, named) if stored else GroupsFound()
        groups = groups.allowed(may_see)
        summary = summarize(found, groups)
        page = _worst(found, limit, may_see) if trouble else _following(found, after, limit)
    else:
        overview = await status.overview(stored=stored)
        summary = await status.summary(EVERYTHING if caller.grant is None else caller.grant.pattern, stored=stored)
        groups = overview.groups.allowed(may_see)
        if trouble:
            page = _worst(overview, limit, may_see)
        else:
            page = await _by_name(controller, after, limit, caller.grant, stored=stored)
    shown = {each.stream for each in page.streams} | page.unread.keys()

    def shows(group: str, streams: Iterable[str]) -> bool:
        return group in named or not shown.isdisjoint(streams)

    reply = wire.StatusPage(
        at=controller.clock.now(),
        controller=wire.ControllerStatus(
            version=controller.version, since=controller.since, ready=reason is None, reason=reason
        ),
        controllers=await _controllers(controller) if stored else {},
        trouble=_troubles(summary),
        states={each.value: count for each in wire.State if (count := summary.states.get(each, 0))},
        counts=_counts(summary),
        partial=not stored or summary.in_memory < summary.streams,
        streams=tuple(page.streams),
        next=page.next,
        unread=page.unread,
        groups=tuple(each for each in groups.groups if shows(each.group, each.streams)),
        unread_groups={
            name: each.code
            for name, each in groups.unread.items()
            if shows(name, each.streams) or each.code == UnknownStream.code  # a deleted stream is on no page
        },
    )
    return reply


async def _controllers(controller: Controller) -> Mapping[str, int]:
    with suppress(StoreUnavailable):
        return (await controller.controllers()).states
    return {}


def _worst(found: StreamsFound, limit: int, may_see: Callable[[str], bool]) -> _StatusPage:
    """Streams in trouble, and those of which it is not known whether they are."""
    worst = [each for each in found.streams if each.state.in_trouble and may_see(each.stream)]
    unread = [name for name in sorted(found.unread) if may_see(name)]
    return _StatusPage(
        sorted(worst, key=by_trouble)[:limit], unread={name: found.unread[name] for name in unread[:limit]}
    )


def _following(found: StreamsFound, after: str, limit: int) -> _StatusPage:
    """A page of the named streams."""
    by_name = {each.stream: each for each in found.streams}
    names = [name for name in sorted(by_name.keys() | found.unread.keys()) if name > after]
    shown = names[:limit]
    return _StatusPage(
        streams=[by_name[name] for name in shown if name in by_name],
        next=shown[-1] if len(names) > limit else None,
        unread={name: found.unread[name] for name in shown if name in found.unread},
    )


async def _by_name(controller: Controller, after: str, limit: int, grant: Grant | None, *, stored: bool) -> _StatusPage:
    """A page of all streams; if the store is away, of those that are known."""

    async def read(after: str, count: int) -> dict[str, tuple[str]]:
        if stored:
            names = await controller.streams.names(after, count)
        else:
            names = [each for each in controller.status.names_known() if each > after][:count]
        return {name: (name,) for name in names}

    names, following = await names_page(read, after, limit, grant)
    found = await controller.status.of_streams(names, stored=stored)
    return _StatusPage(found.streams, following, found.unread)


def _troubles(summary: Summary) -> wire.TroubleCounts:
    bad = {each.value: summary.states.get(each, 0) for each in wire.State if each.in_trouble}
    return wire.TroubleCounts(**bad, none=sum(summary.states.values()) - sum(bad.values()))


def _counts(summary: Summary) -> wire.StatusCounts:
    return wire.StatusCounts(
        streams=summary.streams,
        in_memory=summary.in_memory,
        sealed=summary.sealed,
        writers=summary.writers,
        notes=summary.notes,
        late_notes=summary.late_notes,
        refusals=summary.refusals,
        reader_groups=summary.groups,
        in_backlog=summary.in_backlog,
    )
