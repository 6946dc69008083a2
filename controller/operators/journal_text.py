"""Journal entries as sentences, for the dashboard and the command line."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from controller.operators.wording import Times, span
from strandline.wire.journal import JournalEntry


class Folded(NamedTuple):
    """An entry, or refusals of one kind as one: the newest of them, how many they are, and when the first one was."""

    entry: JournalEntry
    times: int
    first_at: int


def folded(entries: Iterable[JournalEntry]) -> list[Folded]:
    """Entries, newest first, with refusals of one kind as one: those with the same code, of the same writer or reader,
    by the same caller."""
    found: dict[Hashable, Folded] = {}
    for each in entries:
        what = tuple(str(each.details.get(name)) for name in ("code", "writer", "reader", "call", "name"))
        kind: Hashable = (each.kind, each.by, *what) if each.topic == "refusal" else each.seq
        newest = found.get(kind, Folded(each, 0, each.at))
        found[kind] = newest._replace(times=newest.times + 1, first_at=each.at)
    return list(found.values())


def story(fold: Folded, times: Times, when: Callable[[int], str], *, by: str | None = None) -> str:
    """An entry as a sentence, and how often it came; `when` shows since when. An unknown kind is shown as it is."""
    kind, details = fold.entry.kind, fold.entry.details
    sentence = _sentence(kind, details, times, by)
    if "omitted" in details:
        # Those of a code are counted together, whoever was refused: the status of the stream has the number of all.
        more = "others" if kind == "refused" else f"{details['omitted']} more"
        sentence += f" ({more} were too many to be listed)"
    return sentence + (f": {fold.times:,} times since {when(fold.first_at)}" if fold.times > 1 else "")


def _sentence(kind: str, details: Mapping[str, Any], times: Times, by: str | None) -> str:
    key = f" in key {details['key']}" if details.get("key") else ""
    match kind:
        case "state":
            before = f"went from {_state(details['before'])} to" if details["before"] else "became"
            return f"{details['writer']} {before} {_state(details['after'])}{key}{_late(details, times)}"
        case "registered":
            who = f" by {by}" if by else ""
            return f"{details['writer']} registered{who}, with epoch {details['epoch']}{_late(details, times)}{key}"
        case "held":
            length = span(details["to"] - details["from"])
            return f"{details['writer'] or 'too few writers'} held time back for {length}{key}"
        case "holding":
            return (
                f"{details['writer'] or 'too few writers'} has held time back since {times.show(details['from'])}{key}"
            )
        case "first_mark":
            return f"the first mark was made{key}"
        case "pause_ended":
            return f"a mark was made, after {span(details['to'] - details['from'])} without one{key}"
        case "incomplete":
            return f"marks leave out {left_out(details)} from {times.show(details['from_time'])} on{key}"
        case "incomplete_ended":
            return f"marks no longer leave out {left_out(details)}{key}"
        case "ahead":
            far = span(details["time"] - details["clock"])
            return f"{details['writer']} is {far} ahead of the clock, at {times.show(details['time'])}{key}"
        case "ahead_ended":
            return f"{details['writer']} is not ahead of the clock any more{key}"
        case "backlog":
            return f"went into backlog, {_lag(details)}"
        case "caught_up":
            return f"is not in backlog any more, {_lag(details)}"
        case "refused":
            whom = details.get("writer") or details.get("reader") or details.get("call") or details.get("name")
            code = details.get("code", "")
            return f"refused{f' ({whom})' if whom else ''} as {code}: {_dated(details, times)}"
        case "reader_segments":
            gained, lost = ", ".join(details["gained"]), ", ".join(details["lost"])
            moved = " and ".join([*([f"took {gained}"] if gained else []), *([f"gave up {lost}"] if lost else [])])
            return f"{details['reader']} {moved}, and has {details['owned']} segments now"
        case _:
            details = {
                name: value for name, value in details.items() if name != "omitted" and value not in (None, {}, [])
            }
            more = ", ".join(f"{name} {_plain(value)}" for name, value in details.items())
            whose = f" by {by}" if by else ""
            return f"{kind.replace('_', ' ')}{whose}" + (f": {more}" if more else "")


def _lag(details: Mapping[str, Any]) -> str:
    return "with no watermark yet" if details["lag_ms"] is None else f"{span(details['lag_ms'])} behind the clock"


def _late(details: Mapping[str, Any], times: Times) -> str:
    """By how much a writer's time is below that of the marks, where an entry has both."""
    time, mark_time = details.get("time"), details.get("mark_time")
    if time is None or mark_time is None or time >= mark_time:
        return ""
    return f", late: its time {times.show(time)} is {span(mark_time - time)} below that of the marks"


def _state(value: str) -> str:
    return value.replace("_", " ")


def _plain(value: Any) -> str:
    """A value as people write it."""
    match value:
        case list():
            return " and ".join(map(str, value))
        case dict():
            return " ".join(f"{name}={_plain(each)}" for name, each in value.items())
        case _:
            return str(value)


def _dated(details: Mapping[str, Any], times: Times) -> str:
    """The reason of a refusal, with its times as dates."""
    text = str(details.get("detail", details.get("code", "")))
    for name, value in details.items():
        if name == "time" or name.endswith("_time"):
            text = text.replace(str(value), times.show(value)) if isinstance(value, int) else text
    return text


def left_out(details: Mapping[str, Any]) -> str:
    """The writers that incomplete marks leave out, from the details of an entry about them."""
    names = ", ".join(details["excluded"])
    more = details.get("excluded_writers", 0) - len(details["excluded"])
    return names + (f" and {more} more" if more > 0 else "")
