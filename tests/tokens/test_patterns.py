"""What a pattern fits, and what may be one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.access import Grant, Role, check_pattern, check_role, fits
from strandline.errors import InvalidConfig, InvalidName

FEW = st.text("ab.*", min_size=1, max_size=8)


@given(FEW, st.text("ab.", max_size=10))
def test_a_star_in_a_pattern_fits_any_characters(pattern: str, name: str) -> None:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    assert fits(pattern, name) == (re.fullmatch(expression, name) is not None)


@pytest.mark.parametrize(
    ("pattern", "name", "does"),
    [
        ("*", "orders", True),
        ("orders", "orders-eu", False),
        ("orders", "Orders", False),
        ("orders-*", "orders", False),
        ("orders-*", "others-eu", False),
        ("a*a", "a", False),
        ("*.eu.*", "orders.eu.west", True),
        ("a*b*b", "axb", False),
        ("a*b*b", "abb", True),
        ("*ab*ba*", "aba", False),
        ("a.c", "abc", False),
    ],
)
def test_a_pattern_has_to_fit_the_whole_name(pattern: str, name: str, does: bool) -> None:
    assert fits(pattern, name) is does
    assert Grant(name="t", role=Role.READER, pattern=pattern).allows(name) is does


def test_many_stars_take_no_longer_than_few() -> None:
    assert not fits("a*" * 100 + "b", "a" * 249)  # an expression with as many would not end


@pytest.mark.parametrize("pattern", ["", "a b", "a/b", "é", "[ab]", "a?", "a" * 250])
def test_what_no_name_could_fit_is_no_pattern(pattern: str) -> None:
    for wrong in (lambda: check_pattern(pattern), lambda: Grant(name="a", role=Role.READER, pattern=pattern)):
        with pytest.raises(InvalidConfig, match="pattern"):
            wrong()


def test_a_grant_checks_itself() -> None:
    for role in (lambda: check_role("boss"), lambda: Grant(name="a", role="boss")):  # type: ignore[arg-type]  # no role
        with pytest.raises(InvalidConfig, match="one of writer, reader, admin"):
            role()
    with pytest.raises(InvalidName):
        Grant(name="a b", role=Role.READER)
    for others in (Role.READER, Role.ADMIN):
        with pytest.raises(InvalidConfig, match="only a token with the role 'writer'"):
            Grant(name="till", role=others, writers="till-7*")


def test_what_a_grant_allows() -> None:
    every = {
        name: Grant(name="t", role=Role.ADMIN, pattern=name).allows_every_stream for name in ("*", "**", "a*", "*.*")
    }
    assert every == {"*": True, "**": True, "a*": False, "*.*": False}
    may = {(own, needed) for own in Role for needed in Role if own.covers(needed)}
    assert may == {(own, own) for own in Role} | {(Role.ADMIN, needed) for needed in Role}
    bound = Grant(name="till", role=Role.WRITER, writers="till-7*")
    assert bound.speaks_for("till-7") and bound.speaks_for("till-70") and not bound.speaks_for("till-8")
    assert Grant(name="till", role=Role.WRITER).speaks_for("anybody")
