"""Reader groups: their readers, positions and windows."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Response
from msgspec import UNSET

from controller.commit.store import after_commit
from controller.groups.loaded_group import LoadedGroup
from controller.http.bodies import (
    AcquireBody,
    GroupBody,
    GroupChangesBody,
    OfflineBody,
    ReaderBody,
    ReleaseBody,
    StartBody,
)
from controller.http.callers import CallerName, Calling, Over, permit
from controller.http.dependencies import (
    DEFAULT_LIMIT,
    THERE_ALREADY,
    After,
    Limit,
    Served,
    names_page,
)
from controller.http.shapes import sent, shaped_router
from strandline.access import Role
from strandline.core.note import check_position, check_time
from strandline.core.served_time import Moment
from strandline.errors import InvalidConfig, InvalidNote
from strandline.wire.groups import (
    GROUP_SETTINGS,
    FromHead,
    FromPositions,
    FromTime,
    GroupDescription,
    GroupLag,
    GroupMember,
    GroupNames,
    GroupSettings,
    GroupWindow,
    OfflineReply,
    ReaderAnswer,
    Start,
    options_by_name,
    start_shape,
)
from strandline.wire.shapes import convert

router = shaped_router("reader groups", prefix="/v1/reader-groups")


@router.put(
    "/{group}",
    summary="Create a reader group",
    dependencies=permit(Role.READER, Over.GROUP),
    status_code=201,
    response_description="It is new",
    responses=THERE_ALREADY,
)
async def create(
    group: str,
    body: Annotated[GroupBody, sent(GroupBody, InvalidConfig)],
    controller: Served,
    caller: Calling,
    response: Response,
) -> GroupDescription:
    settings = GroupSettings(streams=tuple(body.streams), start=_start(body.start), **_settings(body))
    caller.check_streams(Role.READER, settings.streams)
    created = await controller.groups.create(group, settings, caller.name)
    response.status_code = 201 if created else 200
    with after_commit():
        loaded = await controller.groups.get(group)
    return describe(loaded, controller.clock.moment())


@router.get("", summary="List the reader groups", dependencies=permit(Role.READER, Over.EACH))
async def list_names(
    controller: Served, caller: Calling, after: After = "", limit: Limit = DEFAULT_LIMIT
) -> GroupNames:
    names, following = await names_page(controller.groups.streams_by_name, after, limit, caller.grant)
    return GroupNames(tuple(names), following)


@router.get("/{group}", summary="Describe a reader group", dependencies=permit(Role.READER, Over.GROUP))
async def get(group: str, controller: Served) -> GroupDescription:
    return describe(await controller.groups.get(group), controller.clock.moment())


@router.patch(
    "/{group}", summary="Change a reader group's streams and settings", dependencies=permit(Role.READER, Over.GROUP)
)
async def configure(
    group: str,
    body: Annotated[GroupChangesBody, sent(GroupChangesBody, InvalidConfig)],
    controller: Served,
    caller: Calling,
) -> GroupDescription:
    changes = _settings(body)
    if body.streams is not UNSET:
        caller.check_streams(Role.READER, body.streams)
        changes["streams"] = tuple(body.streams)
    start = None if body.start is UNSET else _start(body.start)
    await controller.groups.configure(group, changes, start, caller.name)
    with after_commit():
        loaded = await controller.groups.get(group)
    return describe(loaded, controller.clock.moment())


@router.delete(
    "/{group}", summary="Delete a reader group", dependencies=permit(Role.READER, Over.GROUP), status_code=204
)
async def delete(group: str, controller: Served, by: CallerName) -> None:
    await controller.groups.delete(group, by)


@router.get("/{group}/time-window", summary="The time window of a group", dependencies=permit(Role.READER, Over.GROUP))
async def time_window(group: str, controller: Served) -> GroupWindow:
    return await controller.groups.window(group)


@router.get(
    "/{group}/lag",
    summary="How far a group is behind in time, segment by segment",
    dependencies=permit(Role.READER, Over.GROUP),
)
async def lag(group: str, controller: Served) -> GroupLag:
    return await controller.groups.lag(group)


@router.put(
    "/{group}/readers/{reader}",
    summary="Register a reader, or, with its epoch, report how far it has read",
    dependencies=permit(Role.READER, Over.GROUP),
)
async def report(
    group: str,
    reader: str,
    body: Annotated[ReaderBody, sent(ReaderBody, InvalidNote, empty=ReaderBody())],
    controller: Served,
    by: CallerName,
) -> ReaderAnswer:
    if body.epoch is None:
        if body.settled is not None:
            wanted = "left out: a reader that registers begins at its settled position, which is in `positions`"
            raise InvalidNote(name="settled", value=body.settled, wanted=wanted)
        return await controller.groups.register(group, reader, body.positions, by, body.registration)
    if body.registration is not None:
        wanted = "left out: a report is about the registration that has its epoch"
        raise InvalidNote(name="registration", value=body.registration, wanted=wanted)
    return await controller.groups.report(group, reader, body.epoch, body.positions, body.settled)


@router.post(
    "/{group}/readers/{reader}/acquire",
    summary="Take free segments, those furthest behind first",
    dependencies=permit(Role.READER, Over.GROUP),
)
async def acquire(
    group: str, reader: str, body: Annotated[AcquireBody, sent(AcquireBody, InvalidNote)], controller: Served
) -> ReaderAnswer:
    if body.max < 0:
        raise InvalidNote(name="max", value=body.max, wanted="how many segments at most, 0 or more")
    return await controller.groups.acquire(group, reader, body.epoch, body.max)


@router.post(
    "/{group}/readers/{reader}/release",
    summary="Give segments up, each at a position",
    dependencies=permit(Role.READER, Over.GROUP),
)
async def release(
    group: str, reader: str, body: Annotated[ReleaseBody, sent(ReleaseBody, InvalidNote)], controller: Served
) -> ReaderAnswer:
    return await controller.groups.release(group, reader, body.epoch, body.positions, body.settled)


@router.post(
    "/{group}/readers/{reader}/offline",
    summary="Put a dead reader's segments back to what was processed",
    dependencies=permit(Role.READER, Over.GROUP),
)
async def offline(
    group: str,
    reader: str,
    body: Annotated[OfflineBody, sent(OfflineBody, InvalidNote)],
    controller: Served,
    by: CallerName,
) -> OfflineReply:
    return OfflineReply(await controller.groups.offline(group, reader, body.positions, by))


def describe(loaded: LoadedGroup, moment: Moment) -> GroupDescription:
    """The description of a group. A silent reader owns nothing any more, even before a call has timed it out."""
    members = loaded.membership
    settings = members.settings
    silent = {name for name in members.readers if members.is_silent(name, moment)}
    return GroupDescription(
        group=members.name,
        streams=settings.streams,
        **options_by_name(settings),
        start=start_shape(settings.start),
        created_at=loaded.created_at,
        readers=tuple(
            GroupMember(
                reader=name,
                epoch=reader.epoch,
                last_heard_at=reader.heard_at,
                owned={} if name in silent else members.owned(name),
                settled={} if name in silent else members.settled(name),
            )
            for name, reader in sorted(members.readers.items())
        ),
    )


def _settings(body: GroupBody | GroupChangesBody) -> dict[str, Any]:
    """The settings that the body has, which `GroupSettings` checks."""
    return {name: value for name in GROUP_SETTINGS if (value := getattr(body, name)) is not UNSET}


def _start(value: Any) -> Start:  # what the body has
    if value is UNSET or value == "head":
        return FromHead()
    wanted = '"head", {"time": …} or {"positions": {…}}'
    try:
        body = convert(value, StartBody)
    except msgspec.ValidationError as error:
        raise InvalidConfig(name="start", value=value, wanted=f"{wanted} ({error})") from None
    if (body.time is UNSET) == (body.positions is UNSET):
        raise InvalidConfig(name="start", value=value, wanted=wanted)
    if body.time is not UNSET:
        check_time("start", body.time)
        return FromTime(body.time)
    assert body.positions is not UNSET
    for position in body.positions.values():
        check_position(position)
    return FromPositions(body.positions)
