"""Every error over the wire and back."""

from __future__ import annotations

import importlib
import json
import pickle
import pkgutil
import string
from collections.abc import Hashable, Iterator, Sequence
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline
from strandline.errors import (
    Fenced,
    Forbidden,
    InternalFailure,
    InvalidConfig,
    InvalidName,
    InvalidNote,
    StrandlineError,
    TooMany,
    UnexpectedAnswer,
    UnknownSegment,
    UnknownSeq,
)
from strandline.wire.problems import (
    BY_CODE,
    HINTS,
    PROBLEM_DETAIL_CHARACTERS,
    PROBLEM_ENTRIES,
    PROBLEM_NUMBER,
    PROBLEM_TEXT_CHARACTERS,
    TITLES,
    from_problem,
    to_problem,
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)
NUMBERS = st.integers(-PROBLEM_NUMBER, PROBLEM_NUMBER)
PLAIN = st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)


LOGS = "strandline.logs"


def leaves(kind: type[StrandlineError] = StrandlineError) -> Iterator[type[StrandlineError]]:
    """Every error that a call can end in, of every module of the package but for logs, which no call reaches."""
    for module in pkgutil.walk_packages(strandline.__path__, "strandline."):
        if not module.name.startswith(("strandline.client.http", LOGS)):
            importlib.import_module(module.name)
    found = [kind]
    while found:
        each = found.pop()
        found.extend(each.__subclasses__())
        if (
            not each.__subclasses__()
            and each.__module__.startswith("strandline.")
            and not each.__module__.startswith(LOGS)
        ):
            yield each


def values_of(hint: object) -> st.SearchStrategy[Any]:
    """Values of the type of a field, as they may be sent."""
    if get_origin(hint) in (Union, UnionType):
        return st.one_of([values_of(option) for option in get_args(hint)])
    if get_origin(hint) is Sequence:
        return st.lists(values_of(get_args(hint)[0]), max_size=PROBLEM_ENTRIES).map(tuple)
    kinds: dict[object, st.SearchStrategy[Any]] = {
        str: TEXTS,
        int: NUMBERS,
        bool: st.booleans(),
        NoneType: st.none(),
        Hashable: TEXTS | NUMBERS | st.tuples(TEXTS, NUMBERS),
        Any: JSON.filter(lambda value: depth(value) <= 4),
    }
    return kinds[hint]


def depth(value: object) -> int:
    inner = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def errors() -> st.SearchStrategy[StrandlineError]:
    return st.sampled_from(list(HINTS)).flatmap(
        lambda kind: st.builds(kind, **{name: values_of(hint) for name, hint in HINTS[kind].items()})
    )


def over_the_wire(error: StrandlineError) -> StrandlineError:
    return from_problem(json.loads(json.dumps(to_problem(error), allow_nan=False).encode()))


def test_the_table_has_every_error_that_can_be_raised_and_no_other() -> None:
    assert set(HINTS) == set(leaves())


def test_every_error_has_a_code_of_its_own() -> None:
    assert len(BY_CODE) == len(HINTS)
    assert StrandlineError.code not in BY_CODE


@settings(max_examples=2)
@given(st.data())
def test_every_error_says_in_words_of_its_own_what_went_wrong(data: st.DataObject) -> None:
    for kind in HINTS:
        error = data.draw(st.builds(kind, **{name: values_of(hint) for name, hint in HINTS[kind].items()}))
        assert str(error) == error.detail != kind.__name__
    assert str(StrandlineError()) == "StrandlineError"


def test_no_error_field_is_named_like_a_problem_member() -> None:
    reserved = {"type", "title", "status", "detail", "instance", "code"}
    assert not {(kind, name) for kind in HINTS for name in HINTS[kind] if name in reserved}


@given(errors())
def test_every_error_comes_back_equal_from_the_wire_and_from_pickling(error: StrandlineError) -> None:
    problem = to_problem(error)
    assert problem.keys() == error.values.keys() | {"type", "title", "status", "detail", "code"}
    assert (problem["type"], problem["title"]) == ("about:blank", TITLES[problem["status"]])
    assert (problem["code"], problem["detail"]) == (type(error).code, error.detail)
    for back in (over_the_wire(error), pickle.loads(pickle.dumps(error))):
        assert (type(back), back.values, back.detail) == (type(error), error.values, error.detail)


UNSAFE = st.one_of(
    st.text(min_size=PROBLEM_TEXT_CHARACTERS, max_size=PROBLEM_TEXT_CHARACTERS + 3),
    st.text(st.characters(categories=["Cs", "Cc"]), min_size=1, max_size=PROBLEM_TEXT_CHARACTERS * 2),
    st.integers(min_value=10**5000, max_value=10**5001),
    st.integers(min_value=PROBLEM_NUMBER),
    st.sampled_from([float("nan"), float("inf"), b"bytes", object, {1: {2}}, [[[[[[]]]]]]]),
    st.lists(st.integers(), min_size=PROBLEM_ENTRIES + 1),
)


@given(UNSAFE)
def test_what_is_unsafe_or_huge_is_cut_short_and_then_travels_unchanged(value: object) -> None:
    problem = to_problem(InvalidConfig(name="segments", value=value, wanted="something else"))
    text = json.dumps(problem, allow_nan=False, ensure_ascii=False)
    assert len(text.encode()) < 64 * 1024
    assert len(problem["detail"]) <= PROBLEM_DETAIL_CHARACTERS
    back = from_problem(json.loads(text))
    assert type(back) is InvalidConfig
    assert to_problem(back) == problem


@pytest.mark.parametrize(
    ("error", "values"),
    [
        (InvalidName(what="stream", name="x" * 1_000_000), {"name": "x" * (PROBLEM_TEXT_CHARACTERS - 1) + "…"}),
        (UnknownSeq(key="", seq=10**5000, newest=-(10**30)), {"seq": PROBLEM_NUMBER, "newest": -PROBLEM_NUMBER}),
        # a text, where anything fits
        (InvalidNote(name="time", value=10**30, wanted="less"), {"value": "1" + "0" * 30}),
        (
            UnknownSegment(segment="z", known=tuple(str(n) for n in range(1000))),
            {"known": tuple(str(n) for n in range(PROBLEM_ENTRIES))},
        ),
    ],
    ids=["a long name", "numbers", "a number where anything fits", "a long list"],
)
def test_what_is_past_a_bound_is_cut_to_it(error: StrandlineError, values: dict[str, Any]) -> None:
    back = over_the_wire(error).values
    assert {name: back[name] for name in values} == values


def test_an_unknown_code_comes_back_with_all_details() -> None:
    error = from_problem({"status": 418, "code": "short_and_stout", "detail": "I am a teapot"}, call="GET /v1/tea")
    assert isinstance(error, UnexpectedAnswer)
    assert error.values == {
        "call": "GET /v1/tea",
        "answer_status": 418,
        "answer_code": "short_and_stout",
        "reason": "this release has no such code; the answer has: I am a teapot",
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"epoch": "3"}, "the field epoch is '3'"),
        ({"epoch": True}, "the field epoch is True"),
        ({"name": None}, "the field name is None"),
        ({"newest": ...}, "the field newest is missing"),
    ],
)
def test_a_known_code_with_wrong_fields_is_an_unexpected_answer(change: dict[str, Any], reason: str) -> None:
    problem = to_problem(Fenced(name="w1", epoch=3, newest=4)) | change
    error = from_problem({name: value for name, value in problem.items() if value is not ...})
    assert isinstance(error, UnexpectedAnswer)
    assert error.answer_code == "fenced"
    assert reason in error.reason


@given(st.dictionaries(st.sampled_from(["code", "status", "detail", "segment", "known", *string.ascii_letters]), JSON))
def test_any_object_at_all_becomes_an_error(problem: dict[str, Any]) -> None:
    assert json.dumps(to_problem(from_problem(problem)), allow_nan=False)


@given(JSON, st.sampled_from(sorted(code for code, kind in BY_CODE.items() if HINTS[kind])), st.data())
def test_any_field_value_becomes_an_error_that_can_be_sent(value: object, code: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(HINTS[BY_CODE[code]])))
    problem = to_problem(
        data.draw(st.builds(BY_CODE[code], **{n: values_of(h) for n, h in HINTS[BY_CODE[code]].items()}))
    )
    assert to_problem(from_problem({**problem, name: value}))["code"] in (code, "unexpected_answer")


def test_fields_that_a_newer_controller_adds_are_passed_over() -> None:
    error = from_problem(to_problem(TooMany(what="notes", count=2, limit=1)) | {"since": "tomorrow"})
    assert error.values == {"what": "notes", "count": 2, "limit": 1, "setting": None}


def test_an_error_outside_the_table_is_sent_as_internal_failure() -> None:
    class Elsewhere(StrandlineError):
        says = "it failed elsewhere"

    problem = to_problem(Elsewhere())
    assert problem["status"] == 500
    assert from_problem(problem).values == InternalFailure(reason="elsewhere has no place on the wire").values


def test_a_refusal_for_any_stream_names_the_role_alone() -> None:
    told = str(Forbidden(role="reader", call="list tokens", needs="admin"))
    assert told == "a token with the role 'reader' may not list tokens: that takes the role 'admin'"
