"""The status of streams, reader groups and the controller, in one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

from fastapi import Query, Request, Response

from controller.controller import Controller
from controller.http.auth import check_streams
from controller.http.declared import Routes, RuleScope
from controller.http.dependencies import DEFAULT_LIMIT, After, Granted, Limit, Served, names_page, viewer_of
from controller.http.responses import answer
from controller.status.condition import State
from controller.status.condition_text import reason_of
from controller.status.overview import GroupsFound, StreamsFound, Summary, summarize
from controller.status.status_view import StatusView, StatusViews
from controller.status.stream_status import GroupStatus, KeyStatus, StreamStatus, by_trouble
from strandline.access import EVERYTHING, Grant, Role
from strandline.core.aggregate import Holder
from strandline.errors import InvalidParameter
from strandline.names import check_name
from strandline.wire import status as wire
from strandline.wire.streams import HolderReply, holder_reply

STATUS_EXCLUDED: Final = 16  # writers that a mark leaves out, named; all are counted

router = Routes("operations")


@dataclass(frozen=True, slots=True)
class _StatusPage:
    streams: Sequence[StreamStatus]
    next: str | None = None
    unread: Mapping[str, str] = field(default_factory=dict)


@router.declare(
    "GET /v1/status",
    "Show the status of streams, groups and the controller",
    Role.READER,
    RuleScope.EACH,
    gives=[wire.StatusPage],
)
async def get_status(
    request: Request,
    controller: Served,
    grant: Granted,
    stream: Annotated[list[str], Query(description="only these streams, and their groups", default_factory=list)],
    after: After = "",
    limit: Limit = DEFAULT_LIMIT,
    trouble: Annotated[bool, Query(description="only streams in trouble, the worst first: one page of them")] = False,
) -> Response:
    if trouble and after:  # their order changes from one time to the next
        raise InvalidParameter(name="after", value=after, wanted="left out where those in trouble are asked for")
    reason, stored = await controller.readiness()
    statuses: StatusViews = request.app.state.status
    view = statuses.seen_by(viewer_of(request.scope))
    slices = view.slices()
    may_see = _everything if grant is None else grant.allows
    if stream:
        names = sorted({check_name("stream", name) for name in stream})
        check_streams(request.scope, names)
        found = await view.of_streams(names)
        groups = (await view.of_groups(names)).allowed(may_see) if stored else GroupsFound()
        summary = await summarize(found, groups, slices)
        page = _worst(found, limit, may_see) if trouble else _following(found, after, limit)
    else:
        overview = await view.overview(stored=stored)
        summary = await view.summary(EVERYTHING if grant is None else grant.pattern, stored=stored)
        groups = overview.groups.allowed(may_see)
        if trouble:
            page = _worst(overview, limit, may_see)
        else:
            page = await _by_name(controller, view, after, limit, grant, stored=stored)
    shown = {each.name for each in page.streams} | page.unread.keys()
    streams = []
    for each in page.streams:
        streams.append(_stream(each))
        await slices.turn()
    reply = wire.StatusPage(
        at=controller.clock.now(),
        controller=wire.ControllerStatus(
            version=controller.version, since=controller.since, ready=reason is None, reason=reason
        ),
        trouble=_troubles(summary),
        states={each.word: count for each in State if (count := summary.states.get(each, 0))},
        counts=_counts(summary),
        streams=tuple(streams),
        next=page.next,
        unread=dict(page.unread),
        groups=tuple(_group(each) for each in groups.groups if not shown.isdisjoint(each.window.streams)),
        unread_groups={name: each.code for name, each in groups.unread.items() if not shown.isdisjoint(each.streams)},
    )
    return answer(reply)


def _everything(_: str) -> bool:
    return True


def _worst(found: StreamsFound, limit: int, may_see: Callable[[str], bool]) -> _StatusPage:
    """Streams in trouble, and those of which it is not known whether they are."""
    worst = [each for each in found.streams if each.state.in_trouble and may_see(each.name)]
    unread = [name for name in sorted(found.unread) if may_see(name)]
    return _StatusPage(
        sorted(worst, key=by_trouble)[:limit], unread={name: found.unread[name] for name in unread[:limit]}
    )


def _following(found: StreamsFound, after: str, limit: int) -> _StatusPage:
    """A page of the named streams."""
    by_name = {each.name: each for each in found.streams}
    names = [name for name in sorted(by_name.keys() | found.unread.keys()) if name > after]
    shown = names[:limit]
    return _StatusPage(
        streams=[by_name[name] for name in shown if name in by_name],
        next=shown[-1] if len(names) > limit else None,
        unread={name: found.unread[name] for name in shown if name in found.unread},
    )


async def _by_name(
    controller: Controller, view: StatusView, after: str, limit: int, grant: Grant | None, *, stored: bool
) -> _StatusPage:
    """A page of all streams; if the store is away, of those in memory."""

    async def read(after: str, count: int) -> dict[str, tuple[str]]:
        if stored:
            names = await controller.streams.names(after, count)
        else:
            names = sorted(each.name for each in controller.streams.in_memory() if each.name > after)[:count]
        return {name: (name,) for name in names}

    names, following = await names_page(read, after, limit, grant)
    found = await view.of_streams(names)
    return _StatusPage(found.streams, following, found.unread)


def _stream(status: StreamStatus) -> wire.StreamStatusReply:
    return wire.StreamStatusReply(
        stream=status.name,
        seen_at=status.seen_at,
        state=status.state.word,
        state_since=status.since,
        reason=reason_of(status.worst, status.seen_at),
        trouble=_trouble(status.state),
        since=status.since if status.state.in_trouble else None,
        sealed=status.sealed,
        time_domain=status.time_domain,
        lag_ms=status.lag_ms,
        segments=status.segments,
        writers=dict(status.writers),
        last_heard_at=status.heard_at,
        notes=status.notes,
        late_notes=status.late_notes,
        refusals=dict(status.refusals),
        held_by={each.key: _holder(each.holder) for each in status.keys},
        keys={each.key: _key(each, status.seen_at) for each in status.keys},
    )


def _key(status: KeyStatus, seen_at: int) -> wire.KeyStatusReply:
    excluded = status.excluded
    return wire.KeyStatusReply(
        time=status.time,
        resting=status.resting,
        lag_ms=status.lag_ms,
        event_time_lag_ms=status.event_time_lag_ms,
        mark_seq=0 if status.mark is None else status.mark.seq,
        marked_at=status.marked_at,
        marks_per_second=status.marks_per_second,
        complete=not excluded,
        excluded=tuple(excluded[:STATUS_EXCLUDED]),
        excluded_writers=len(excluded),
        incomplete_marks=status.incomplete_marks,
        writers=dict(status.writers),
        state=status.state.word,
        state_since=status.since,
        reason=reason_of(status, seen_at),
        usual_ms=status.usual_ms,
        too_long_ms=status.too_long_ms,
        held_back=status.held_back,
        trouble=_trouble(status.state),
        since=status.since if status.state.in_trouble else None,
    )


def _trouble(state: State) -> str | None:
    return state.word if state.in_trouble else None


def _troubles(summary: Summary) -> wire.TroubleCounts:
    bad = {each.word: summary.states.get(each, 0) for each in State if each.in_trouble}
    return wire.TroubleCounts(**bad, none=sum(summary.states.values()) - sum(bad.values()))


def _holder(holder: Holder | None) -> HolderReply | None:
    return None if holder is None else holder_reply(holder)


def _group(status: GroupStatus) -> wire.GroupStatusReply:
    window = status.window
    return wire.GroupStatusReply(
        group=status.name,
        seen_at=status.seen_at,
        streams=tuple(window.streams),
        readers=status.readers,
        lag_ms=window.lag_ms,
        backlog=window.backlog,
        backlog_threshold_ms=status.threshold_ms,
        watermarks=dict(window.watermarks),
        held_by=dict(window.held_by),
        complete=window.complete,
        idle=tuple(window.idle),
    )


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
