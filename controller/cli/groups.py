"""`strandline groups`."""

from __future__ import annotations

from typing import Final

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import json_option, name_of, times_option
from controller.cli.screen import table
from controller.terminal import say
from controller.wording import NOTHING, Times, fields, indented, is_epoch, key_name, offsets, span, yes
from strandline.client.calls import status
from strandline.client.group_calls import describe_group, group_window, list_groups
from strandline.limits import PAGE_ENTRIES
from strandline.wire.groups import GROUP_SETTINGS, GroupDescription, GroupMember, GroupWindow
from strandline.wire.status import GroupStatus

GROUPS_SHOWN: Final = 50


@click.command
@click.argument("group", required=False, type=name_of("group"), help="the reader group to describe")
@calls_controller
@json_option
@times_option
def command(client: ControllerClient, group: str | None, as_json: bool, times: Times) -> None:
    """List the reader groups, or describe one.

    The description has its watermarks, its streams with their positions, its readers and what each of them owns.
    """
    if group is None:
        _list(client, as_json, times)
        return
    described = client.ask(describe_group(group))
    if as_json:
        say(indented(described.json))
        return
    window = client.run(group_window(group))
    say("\n".join(_page(group, described.value, window, times)))


def _list(client: ControllerClient, as_json: bool, times: Times) -> None:
    names = client.every(list_groups, "groups")
    if as_json:
        say(indented({"groups": names, "next": None}))
        return
    seen = {each.group: each for each in client.run(status(limit=PAGE_ENTRIES)).groups} if names else {}
    header = ("group", "streams", "readers", "watermark", "lag", "backlog", "held by")
    shown = [_row(name, seen.get(name), times) for name in names[:GROUPS_SHOWN]]
    say("\n".join(table(header, shown)) if shown else "there is no reader group yet")
    if len(names) > len(shown):
        say(f"and {len(names) - len(shown)} more: --json names all, `strandline groups NAME` describes one")


def _row(name: str, group: GroupStatus | None, times: Times) -> tuple[str, ...]:
    if group is None:
        return (name, *(NOTHING,) * 6)
    return (
        name,
        ", ".join(group.streams),
        str(group.readers),
        _by_key({key: times.show(time) for key, time in group.watermarks.items()}),
        _lag(group.lag_ms, group.watermarks.get("")),
        yes(group.backlog),
        _by_key({key: stream or "nobody" for key, stream in group.held_by.items()}),
    )


def _page(name: str, group: GroupDescription, window: GroupWindow, times: Times) -> list[str]:
    settings = [(each, getattr(group, each)) for each in GROUP_SETTINGS]
    top = [
        ("group", name),
        ("watermark", _by_key({key: times.show(time) for key, time in window.watermarks.items()})),
        ("held by", _by_key({key: stream or "nobody" for key, stream in window.held_by.items()})),
        ("lag", _lag(window.lag_ms, window.lower)),
        ("complete", yes(window.complete)),
        ("backlog", yes(window.backlog)),
        ("idle streams", ", ".join(window.idle) or NOTHING),
        *((each, "null" if value is None else str(value)) for each, value in settings),
    ]
    streams = [
        (
            stream,
            times.show(each.lower),
            times.show(each.upper),
            _lag(each.lag_ms, each.lower),
            _span(each.behind_ms),
            yes(each.end_of_stream),
            offsets(each.position),
        )
        for stream, each in window.streams.items()
    ]
    header = ("stream", "lower", "upper", "lag", "behind", "at its end", "read")
    return [
        *fields(top),
        "",
        "Streams",
        *(table(header, streams) if streams else ["none"]),
        "",
        "Readers",
        *(_readers(group.readers, times) if group.readers else ["none is registered"]),
    ]


def _readers(readers: tuple[GroupMember, ...], times: Times) -> list[str]:
    header = ("reader", "epoch", "last heard", "owns, and has read")
    rows = [
        (
            each.reader,
            str(each.epoch),
            times.show(each.last_heard_at),
            "; ".join(f"{stream}: {offsets(owned)}" for stream, owned in each.owned.items()) or NOTHING,
        )
        for each in readers
    ]
    return table(header, rows)


def _span(milliseconds: int | None) -> str:
    return NOTHING if milliseconds is None else span(milliseconds)


def _lag(lag_ms: int | None, time: int | None) -> str:
    """The lag of a time, if that is a date."""
    return _span(lag_ms) if time is not None and is_epoch(time) else NOTHING


def _by_key(shown: dict[str, str]) -> str:
    """A value for each time key; the default key is not named where it is the only one."""
    if shown.keys() <= {""}:
        return shown.get("", NOTHING)
    return ", ".join(f"{key_name(key)}: {value}" for key, value in shown.items())
