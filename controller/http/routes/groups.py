"""Reader groups: their readers, positions and windows."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Request, Response
from msgspec import UNSET

from controller.commit.store import after_commit
from controller.controller import Controller
from controller.groups.loaded_group import LoadedGroup
from controller.http.auth import check_group, check_streams
from controller.http.bodies import (
    AcquireBody,
    GroupBody,
    GroupChangesBody,
    OfflineBody,
    ReaderBody,
    ReleaseBody,
    StartBody,
)
from controller.http.body_errors import what_is_wrong
from controller.http.declared import Routes, RuleScope
from controller.http.dependencies import (
    DEFAULT_LIMIT,
    THERE_ALREADY,
    After,
    Body,
    Caller,
    Granted,
    Limit,
    Served,
    Wrong,
    names_page,
    read_as,
)
from controller.http.responses import answer
from strandline.access import Role
from strandline.core.config import checked
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

router = Routes("reader groups", prefix="/v1/reader-groups")


@router.declare(
    "PUT /{group}",
    "Create a reader group",
    Role.READER,
    RuleScope.GROUP,
    takes=[GroupBody],
    gives=[GroupDescription],
    status=201,
    also=THERE_ALREADY,
    says="It is new",
)
async def create(group: str, request: Request, controller: Served, by: Caller) -> Response:
    body = await read_as(request, GroupBody, InvalidConfig)
    settings = GroupSettings(streams=tuple(body.streams), start=_start(body.start), **_settings(body))
    check_streams(request.scope, settings.streams)
    created = await controller.groups.create(group, settings, by)
    with after_commit():
        loaded = await controller.groups.get(group)
    return answer(describe(loaded, controller.clock.moment()), 201 if created else 200)


@router.declare("GET", "List the reader groups", Role.READER, RuleScope.EACH, gives=[GroupNames])
async def list_names(controller: Served, grant: Granted, after: After = "", limit: Limit = DEFAULT_LIMIT) -> Response:
    names, following = await names_page(controller.groups.streams_by_name, after, limit, grant)
    return answer(GroupNames(tuple(names), following))


@router.declare("GET /{group}", "Describe a reader group", Role.READER, RuleScope.GROUP, gives=[GroupDescription])
async def get(group: str, controller: Served) -> Response:
    return answer(describe(await controller.groups.get(group), controller.clock.moment()))


@router.declare(
    "PATCH /{group}",
    "Change a reader group's streams and settings",
    Role.READER,
    RuleScope.GROUP,
    takes=[GroupChangesBody],
    gives=[GroupDescription],
)
async def configure(group: str, request: Request, controller: Served, by: Caller) -> Response:
    body = await _read_for(group, controller, request, GroupChangesBody, InvalidConfig)
    changes = _settings(body)
    if body.streams is not UNSET:
        check_streams(request.scope, body.streams)
        changes["streams"] = tuple(body.streams)
    start = None if body.start is UNSET else _start(body.start)
    await controller.groups.configure(group, changes, start, by)
    with after_commit():
        loaded = await controller.groups.get(group)
    return answer(describe(loaded, controller.clock.moment()))


@router.declare("DELETE /{group}", "Delete a reader group", Role.READER, RuleScope.GROUP, status=204)
async def delete(group: str, controller: Served, by: Caller) -> Response:
    await controller.groups.delete(group, by)
    return Response(status_code=204)


@router.declare(
    "GET /{group}/time-window", "The time window of a group", Role.READER, RuleScope.GROUP, gives=[GroupWindow]
)
async def time_window(group: str, controller: Served) -> Response:
    return answer(await controller.groups.window(group))


@router.declare(
    "GET /{group}/lag",
    "How far a group is behind in time, segment by segment",
    Role.READER,
    RuleScope.GROUP,
    gives=[GroupLag],
)
async def lag(group: str, controller: Served) -> Response:
    return answer(await controller.groups.lag(group))


@router.declare(
    "PUT /{group}/readers/{reader}",
    "Register a reader, or, with its epoch, report how far it has read",
    Role.READER,
    RuleScope.GROUP,
    takes=[ReaderBody],
    needs_body=False,
    gives=[ReaderAnswer],
)
async def report(group: str, reader: str, request: Request, controller: Served, by: Caller) -> Response:
    body = await _read_for(group, controller, request, ReaderBody, InvalidNote, empty=ReaderBody())
    if body.epoch is None:
        if body.settled is not None:
            wanted = "left out: a reader that registers begins at its settled position, which is in `positions`"
            raise InvalidNote(name="settled", value=body.settled, wanted=wanted)
        reply = await controller.groups.register(group, reader, body.positions, by)
    else:
        reply = await controller.groups.report(group, reader, body.epoch, body.positions, body.settled)
    return answer(reply)


@router.declare(
    "POST /{group}/readers/{reader}/acquire",
    "Take free segments, those furthest behind first",
    Role.READER,
    RuleScope.GROUP,
    takes=[AcquireBody],
    gives=[ReaderAnswer],
)
async def acquire(group: str, reader: str, request: Request, controller: Served) -> Response:
    body = await _read_for(group, controller, request, AcquireBody, InvalidNote)
    if body.max < 0:
        raise InvalidNote(name="max", value=body.max, wanted="how many segments at most, 0 or more")
    return answer(await controller.groups.acquire(group, reader, body.epoch, body.max))


@router.declare(
    "POST /{group}/readers/{reader}/release",
    "Give segments up, each at a position",
    Role.READER,
    RuleScope.GROUP,
    takes=[ReleaseBody],
    gives=[ReaderAnswer],
)
async def release(group: str, reader: str, request: Request, controller: Served) -> Response:
    body = await _read_for(group, controller, request, ReleaseBody, InvalidNote)
    reply = await controller.groups.release(group, reader, body.epoch, body.positions, body.settled)
    return answer(reply)


@router.declare(
    "POST /{group}/readers/{reader}/offline",
    "Put a dead reader's segments back to what was processed",
    Role.READER,
    RuleScope.GROUP,
    takes=[OfflineBody],
    gives=[OfflineReply],
)
async def offline(group: str, reader: str, request: Request, controller: Served, by: Caller) -> Response:
    body = await _read_for(group, controller, request, OfflineBody, InvalidNote)
    return answer(OfflineReply(await controller.groups.offline(group, reader, body.positions, by)))


async def _read_for(
    group: str, controller: Controller, request: Request, kind: type[Body], wrong: Wrong, *, empty: Body | None = None
) -> Body:
    """The body of a call to a group. Another group may have its name by the time that it is here."""
    body = await read_as(request, kind, wrong, empty=empty)
    await check_group(request.scope, controller, group)
    return body


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
    """The settings that the body has, checked."""
    given = {name: getattr(body, name) for name in GROUP_SETTINGS}
    return {name: checked(GROUP_SETTINGS[name], value) for name, value in given.items() if value is not UNSET}


def _start(value: Any) -> Start:  # what the body has
    if value == "head":
        return FromHead()
    wanted = '"head", {"time": …} or {"positions": {…}}'
    try:
        body = convert(value, StartBody)
    except msgspec.ValidationError as error:
        raise InvalidConfig(name="start", value=value, wanted=f"{wanted}; {what_is_wrong(error)}") from None
    if (body.time is UNSET) == (body.positions is UNSET):
        raise InvalidConfig(name="start", value=value, wanted=wanted)
    if body.time is not UNSET:
        check_time("start", body.time)
        return FromTime(body.time)
    assert body.positions is not UNSET
    for position in body.positions.values():
        check_position(position)
    return FromPositions(body.positions)
