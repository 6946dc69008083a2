"""Writers: register, list, go idle, close, exclude, include."""

from __future__ import annotations

from typing import Annotated

from controller.commit.journal import AdminAction
from controller.http.bodies import RegisterBody
from controller.http.callers import CallerName, permit
from controller.http.dependencies import DEFAULT_LIMIT, After, Epoch, Limit, Served
from controller.http.shapes import sent, shaped_router
from controller.operator_log import log_event
from controller.streams.reads import PAGE_OFFSETS
from strandline.access import Role
from strandline.core.stream import Stream
from strandline.core.writer import StreamWriter, WriterState
from strandline.wire.streams import MarksPage, Registration, TimesWithout, WriterReply, WritersPage, registration

router = shaped_router("writers", prefix="/v1/streams/{stream}/writers")


@router.put("/{writer}", summary="Register a writer", dependencies=permit(Role.WRITER))
async def register(
    stream: str,
    writer: str,
    body: Annotated[RegisterBody, sent(RegisterBody, empty=RegisterBody())],
    controller: Served,
    by: CallerName,
) -> Registration:
    registered = await controller.streams.register(stream, writer, body.keys, by, body.registration)
    log_event("writer_registered", stream=stream, writer=writer, epoch=registered.epoch, by=by)
    return registration(registered)


@router.get("", summary="List the writers", dependencies=permit(Role.READER))
async def list_writers(stream: str, controller: Served, after: After = "", limit: Limit = DEFAULT_LIMIT) -> WritersPage:
    """The page ends before PAGE_OFFSETS, in positions and in times, after one writer at least."""
    found = (await controller.streams.get(stream)).stream
    names = sorted(name for name in found.writers if name > after)
    now = controller.clock.now()
    held = {key: holder.writer for key in found.keys if (holder := found.held_by(key, now)) is not None}
    replies, left = list[WriterReply](), PAGE_OFFSETS
    for name in names[:limit]:
        writer = found.writers[name]
        left -= len(writer.position) + len(writer.key_states)
        if left < 0 and replies:
            break
        replies.append(_reply(found, writer, held))
    return WritersPage(tuple(replies), replies[-1].writer if len(replies) < len(names) else None)


@router.post("/{writer}/idle", summary="Make a writer idle", dependencies=permit(Role.WRITER))
async def idle(stream: str, writer: str, controller: Served, epoch: Epoch = None) -> MarksPage:
    page = await controller.streams.change_marks(stream, lambda each, now: each.idle(writer, epoch, now))
    log_event("writer_idle", stream=stream, writer=writer)
    return page


@router.delete("/{writer}", summary="Close a writer", dependencies=permit(Role.WRITER))
async def close(stream: str, writer: str, controller: Served, epoch: Epoch = None) -> MarksPage:
    page = await controller.streams.change_marks(stream, lambda each, now: each.close(writer, epoch, now))
    log_event("writer_closed", stream=stream, writer=writer)
    return page


@router.get(
    "/{writer}/times-without", summary="Tell where time would go without a writer", dependencies=permit(Role.READER)
)
async def times_without(stream: str, writer: str, controller: Served) -> TimesWithout:
    """Ask this before a writer is excluded, closed or included again: time never goes back."""
    found = (await controller.streams.get(stream)).stream
    excluded, closed = (found.time_without(writer, closing=closing) for closing in (False, True))
    return TimesWithout(
        at=max(controller.clock.now(), found.clock),
        time_domain=found.config.time_domain,
        present={key: each.before for key, each in excluded.items()},
        excluded={key: each.after for key, each in excluded.items()},
        closed={key: each.after for key, each in closed.items()},
        included={key: each.after for key, each in found.time_with(writer, controller.clock.now()).items()},
    )


@router.post("/{writer}/exclude", summary="Exclude a writer", dependencies=permit(Role.ADMIN))
async def exclude(stream: str, writer: str, controller: Served, by: CallerName) -> MarksPage:
    act = AdminAction("excluded", by, {"writer": writer})
    return await controller.streams.change_marks(stream, lambda each, now: each.exclude(writer, now), act)


@router.delete("/{writer}/exclude", summary="Include an excluded writer again", dependencies=permit(Role.ADMIN))
async def include(stream: str, writer: str, controller: Served, by: CallerName) -> MarksPage:
    act = AdminAction("included", by, {"writer": writer})
    return await controller.streams.change_marks(stream, lambda each, now: each.include(writer, now), act)


# If a writer's keys have different states, the first of these counts.
_STATES_IN_ORDER = (
    WriterState.CLOSED,
    WriterState.EXCLUDED,
    WriterState.TIMED_OUT,
    WriterState.BEHIND,
    WriterState.JOINED,
    WriterState.ACTIVE,
    WriterState.IDLE,
)


def state_of(stream: Stream, writer: StreamWriter) -> WriterState:
    """A writer's state in all of its keys."""
    states = set(stream.states(writer).values())
    return next(state for state in _STATES_IN_ORDER if state in states)


def _reply(stream: Stream, writer: StreamWriter, held: dict[str, str | None]) -> WriterReply:
    return WriterReply(
        writer=writer.name,
        state=state_of(stream, writer),
        states=stream.states(writer),
        times={key: key_state.time for key, key_state in sorted(writer.key_states.items())},
        position=stream.graph.frontier(writer.position),
        epoch=writer.epoch,
        last_heard_at=writer.heard_at,
        holds=tuple(sorted(key for key, name in held.items() if name == writer.name)),
    )
