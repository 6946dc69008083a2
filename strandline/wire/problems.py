"""Errors over the wire: RFC 9457 problems both ways.

    to_problem(error)        {"type", "title", "status", "detail", "code", and the fields of the error}
    from_problem(problem)    the error: equal in class and values

The error that comes back is equal to the one sent, except for unsafe or huge values, which are cut short on the way
out: texts, lists and numbers past a bound, characters that UTF-8 or JSON cannot hold, deep nesting. Secrets in texts
are hidden.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from strandline import errors
from strandline.errors import StrandlineError
from strandline.redaction import redact

PROBLEM_TEXT_CHARACTERS: Final = 512  # of a text in a problem; the rest is cut off
PROBLEM_DETAIL_CHARACTERS: Final = 2_000  # of its sentence
PROBLEM_ENTRIES: Final = 16  # of a list or an object in it
PROBLEM_DEPTH: Final = 4  # nested lists and objects in it
PROBLEM_NUMBER: Final = 2**63 - 1  # the greatest whole number in it, for the sake of JSON readers

Entry = TypeVar("Entry")

MEDIA_TYPE: Final = "application/problem+json"


def _hints(kind: type[StrandlineError]) -> dict[str, object]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


# Every error that has a code of its own, and the type of each of its fields.
BY_CODE: Final[Mapping[str, type[StrandlineError]]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, StrandlineError) and not kind.is_family()
}
HINTS: Final[Mapping[type[StrandlineError], Mapping[str, object]]] = {kind: _hints(kind) for kind in BY_CODE.values()}

# Of the type "about:blank" a title says what the status says. (Python's own names for these differ by release.)
TITLES: Final[Mapping[int, str]] = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


def status_of(error: StrandlineError) -> int:
    """The HTTP status of an error; 500 for an unknown one."""
    return error.status if type(error) in HINTS else 500


def to_problem(error: StrandlineError) -> dict[str, Any]:
    """The problem of an error. An unknown error becomes an InternalFailure that names its code."""
    if type(error) not in HINTS:
        error = errors.InternalFailure(reason=f"{error.code} has no place on the wire")
    safe = type(error)(**{name: _fit(hint, getattr(error, name)) for name, hint in HINTS[type(error)].items()})
    status = status_of(safe)
    return {
        "type": "about:blank",
        "title": TITLES[status],
        "status": status,
        "detail": _text(safe.detail, PROBLEM_DETAIL_CHARACTERS),
        "code": safe.code,
        **{name: list(value) if isinstance(value, tuple) else value for name, value in safe.values.items()},
    }


def from_problem(problem: Mapping[str, Any], *, call: str | None = None) -> StrandlineError:
    """The error of a problem. If this release does not know the code, or the fields do not fit, it is an
    UnexpectedAnswer with the code and the detail, and with the `call` if that is given."""
    code, status = problem.get("code"), problem.get("status")
    kind = BY_CODE.get(code) if isinstance(code, str) else None
    if kind is not None:
        try:
            return kind(**_given(kind, problem))
        except _Misfit as misfit:
            reason = str(misfit)
    else:
        reason = "this release has no such code"
    detail = problem.get("detail")
    return errors.UnexpectedAnswer(
        call=call,
        answer_status=_number(status) if type(status) is int else None,
        answer_code=_text(code) if isinstance(code, str) else None,
        reason=f"{reason}; the answer has: {_text(detail)}" if isinstance(detail, str) else reason,
    )


# -- going out -----------------------------------------------------------------------------------------------


def _fit(hint: object, value: object) -> object:
    """The part of a field's value that may go out, in the type of the field."""
    if value is None:
        return None
    options = _options(hint)
    if bool in options and isinstance(value, bool):
        return value
    if int in options and isinstance(value, int):
        return _number(value)
    if str in options:
        return _text(value if isinstance(value, str) else str(_safe(value, PROBLEM_DEPTH)))
    for option in options:
        if get_origin(option) is Sequence and isinstance(value, Sequence):
            return tuple(_fit(get_args(option)[0], each) for each in _first(value))
    safe = _safe(value, PROBLEM_DEPTH)
    return _hashable(safe) if Hashable in options else safe


def _safe(value: object, depth: int) -> object:
    """Any value as JSON, without the parts that may not be sent."""
    match value:
        case None | bool():
            return value
        case int():
            return value if _number(value) == value else _long_number(value)
        case float():
            return value if math.isfinite(value) else repr(value)
        case str():
            return _text(value)
        case Mapping() if depth:
            return {_text(str(key)): _safe(each, depth - 1) for key, each in _first(value.items())}
        case list() | tuple() | Set() if depth:
            return [_safe(each, depth - 1) for each in _first(value)]
        case Mapping() | list() | tuple() | Set():
            return "…"
        case _:
            return _text(repr(value))


def _first(entries: Iterable[Entry]) -> list[Entry]:
    return [entry for entry, _ in zip(entries, range(PROBLEM_ENTRIES), strict=False)]


def _number(value: int) -> int:
    return max(-PROBLEM_NUMBER, min(int(value), PROBLEM_NUMBER))


def _long_number(value: int) -> str:
    bits = value.bit_length()
    return str(value) if bits < PROBLEM_TEXT_CHARACTERS else f"a whole number of {bits} bits"


def _text(text: str, characters: int = PROBLEM_TEXT_CHARACTERS) -> str:
    text = redact(text[: 2 * characters])[: characters + 1].encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= characters else text[: characters - 1] + "…"


# -- coming in -----------------------------------------------------------------------------------------------


class _Misfit(Exception):
    """A problem's field is missing, or of another type."""


def _given(kind: type[StrandlineError], problem: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    hints = HINTS[kind]
    for field in fields(kind):
        if field.name in problem:
            values[field.name] = _take(hints[field.name], problem[field.name], field.name)
        elif field.default is MISSING:
            raise _Misfit(f"the field {field.name} is missing")
    return values


def _take(hint: object, value: object, name: str) -> object:
    """A field's value from JSON, in the type of the field."""
    options = _options(hint)
    if Any in options:
        return value
    if Hashable in options:
        return _hashable(value)
    if type(value) in options:
        return value
    if isinstance(value, list):
        for option in options:
            if get_origin(option) is Sequence:
                return tuple(_take(get_args(option)[0], each, name) for each in value)
    raise _Misfit(f"the field {name} is {_safe(value, 1)!r}")


def _hashable(value: object) -> Hashable:
    if isinstance(value, list):
        return tuple(_hashable(each) for each in value)
    if isinstance(value, dict):
        return tuple((key, _hashable(each)) for key, each in value.items())
    assert isinstance(value, Hashable)
    return value


def _options(hint: object) -> tuple[object, ...]:
    """The types that a field may have: those of a union, or the one."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(NoneType if option is None else option for option in get_args(hint))
    return (hint,)
