"""Journal entries as sentences, for the dashboard and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.wording import Times, span


def story(kind: str, told: Mapping[str, Any], times: Times, *, by: str | None = None) -> str:
    """What happened, in a sentence, given an entry's kind and details; one of an unknown kind, as it stands."""
    said = _said(kind, told, times, by)
    return said if "omitted" not in told else f"{said} ({told['omitted']} more were too many to be told)"


def _said(kind: str, told: Mapping[str, Any], times: Times, by: str | None) -> str:
    key = f" in key {told['key']}" if told.get("key") else ""
    match kind:
        case "state":
            return f"{told['writer']} went from {_state(told['before'])} to {_state(told['after'])}{key}"
        case "held":
            return f"{told['writer'] or 'too few writers'} held time back for {span(told['to'] - told['from'])}{key}"
        case "incomplete":
            return f"marks leave out {_names(told)} from {times.show(told['from_time'])} on{key}"
        case "incomplete_ended":
            return f"marks no longer leave out {_names(told)}{key}"
        case "backlog":
            return f"went into backlog, {_lag(told)}"
        case "caught_up":
            return f"is not in backlog any more, {_lag(told)}"
        case "refused":
            who = told.get("writer") or told.get("reader") or told.get("call") or told.get("name")
            code = told.get("code", "")
            return f"refused{f' ({who})' if who else ''} as {code}: {told.get('detail', code)}"
        case "reader_segments":
            gained, lost = ", ".join(told["gained"]), ", ".join(told["lost"])
            moved = " and ".join([*([f"took {gained}"] if gained else []), *([f"gave up {lost}"] if lost else [])])
            return f"{told['reader']} {moved}, and has {told['owned']} segments now"
        case _:
            details = {name: value for name, value in told.items() if name != "omitted" and value not in (None, {}, [])}
            more = ", ".join(f"{name} {value}" for name, value in details.items())
            whose = f" by {by}" if by else ""
            return f"{kind.replace('_', ' ')}{whose}" + (f": {more}" if more else "")


def _lag(told: Mapping[str, Any]) -> str:
    return "with no watermark yet" if told["lag_ms"] is None else f"{span(told['lag_ms'])} behind the clock"


def _state(value: str | None) -> str:
    return (value or "unknown").replace("_", " ")


def _names(told: Mapping[str, Any]) -> str:
    names = ", ".join(told["excluded"])
    more = told.get("excluded_writers", 0) - len(told["excluded"])
    return names + (f" and {more} more" if more > 0 else "")
