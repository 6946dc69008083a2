"""`strandline groups`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import name_of
from controller.cli.screen import Output, fields, listing, prints, settings
from controller.cli.stream_table import in_calls
from controller.operators.unread_text import why_unread
from controller.operators.wording import Times, key_name, offsets, span
from strandline.client.calls import status
from strandline.client.group_calls import describe_group, group_window, list_groups
from strandline.core.time_units import is_epoch
from strandline.wire.groups import GROUP_SETTINGS, GroupDescription, GroupWindow
from strandline.wire.status import GroupStatus

GROUPS_SHOWN: Final = 50


@click.command
@click.argument("group", required=False, type=name_of("group"), help="the reader group to describe")
@calls_controller
@prints
def command(client: ControllerClient, group: str | None, output: Output) -> None:
    """List the reader groups, or describe one.

    The description has its watermarks, its streams with their positions, its readers and what each of them owns.
    """
    if group is None:
        names = client.every(list_groups, "groups")
        output.show({"groups": names, "next": None}, lambda: _table(client, names, output.times))
    else:
        described = client.ask(describe_group(group))
        output.show(
            described.json, lambda: _page(group, described.value, client.run(group_window(group)), output.times)
        )


def _table(client: ControllerClient, names: Sequence[str], times: Times) -> list[str]:
    found = [client.run(status(groups=some)) for some in in_calls(names[:GROUPS_SHOWN])]
    seen = {each.group: each for page in found for each in page.groups}
    unread = {name: why_unread(code) for page in found for name, code in page.unread_groups.items()}
    header = ("group", "streams", "readers", "watermark", "lag", "backlog", "held by")
    rows = [_row(name, seen.get(name), unread.get(name), times) for name in names]
    more = "--json names all, `strandline groups NAME` describes one"
    return listing(header, rows, none="there is no reader group yet", most=GROUPS_SHOWN, more=more)


def _row(name: str, group: GroupStatus | None, unread: str | None, times: Times) -> tuple[object, ...]:
    if group is None:
        return (name, *(None,) * 5, unread)
    lag = _lag(group.lag_ms, group.watermarks.get(""))
    times_and_holders = _times(group.watermarks, times), lag, group.backlog, _holders(group.held_by)
    return (name, group.streams, group.readers, *times_and_holders)


def _page(name: str, group: GroupDescription, window: GroupWindow, times: Times) -> list[str]:
    top = [
        ("group", name),
        ("watermark", _times(window.watermarks, times)),
        ("held by", _holders(window.held_by)),
        ("lag", _lag(window.lag_ms, window.lower)),
        ("complete", window.complete),
        ("backlog", window.backlog),
        ("idle streams", window.idle),
        *settings({each: getattr(group, each) for each in GROUP_SETTINGS}),
    ]
    streams = [
        (
            stream,
            times.show(each.lower),
            times.show(each.upper),
            _lag(each.lag_ms, each.lower),
            None if each.behind_ms is None else span(each.behind_ms),
            each.end_of_stream,
            offsets(each.position),
        )
        for stream, each in window.streams.items()
    ]
    readers = [
        (
            each.reader,
            each.epoch,
            times.show(each.last_heard_at),
            "; ".join(f"{stream}: {offsets(owned)}" for stream, owned in each.owned.items()) or None,
        )
        for each in group.readers
    ]
    of_streams = ("stream", "lower", "upper", "lag", "behind", "at its end", "read")
    of_readers = ("reader", "epoch", "last heard", "owns, and has read")
    return [
        *(*fields(top), "", "Streams", *listing(of_streams, streams, none="none")),
        *("", "Readers", *listing(of_readers, readers, none="none is registered")),
    ]


def _lag(lag_ms: int | None, time: int | None) -> str | None:
    """The lag of a time, if that is a date."""
    return span(lag_ms) if lag_ms is not None and time is not None and is_epoch(time) else None


def _times(watermarks: Mapping[str, int | None], times: Times) -> str | None:
    return _by_key({key: times.show(time) for key, time in watermarks.items()})


def _holders(held_by: Mapping[str, str | None]) -> str | None:
    return _by_key({key: stream or "nobody" for key, stream in held_by.items()})


def _by_key(shown: Mapping[str, str]) -> str | None:
    """A value for each time key; the default key is not named where it is the only one."""
    if shown.keys() <= {""}:
        return shown.get("")
    return ", ".join(f"{key_name(key)}: {value}" for key, value in shown.items())
