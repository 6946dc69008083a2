"""A controller's addresses, and which of them a request goes to."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.client.addresses import AWAY_S, AddressChoice, check_addresses
from strandline.errors import InvalidConfig

# -- what is a valid list --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("controller", "addresses"),
    [
        ("http://a", ("http://a",)),
        ("http://a/base/", ("http://a/base",)),
        ("http://a,http://b:8433", ("http://a", "http://b:8433")),
        (" http://a , http://b/ ", ("http://a", "http://b")),
        (["http://a", "http://b/"], ("http://a", "http://b")),
        (("https://a", "https://a:8433", "https://a/base"), ("https://a", "https://a:8433", "https://a/base")),
        (["http://[::1]:8433", "http://[fe80::1%25eth0]"], ("http://[::1]:8433", "http://[fe80::1%25eth0]")),
    ],
)
def test_one_address_a_list_and_a_text_with_commas_are_valid(
    controller: str | Sequence[str], addresses: tuple[str, ...]
) -> None:
    assert check_addresses(controller) == addresses
    assert check_addresses(",".join(addresses)) == addresses


@pytest.mark.parametrize(
    ("controller", "named"),
    [
        ([], []),
        (None, None),
        *((one, one) for one in ("", "127.0.0.1:8433", "ftp://there", "http://", "http://there:port", "http://[::1")),
        *((one, one) for one in ("http://there:99999", "http://there/?a=1", "http://there/#a")),
        ("http://a,", "http://a,"),
        ("http://a,,http://b", "http://a,"),
        ("http://a;http://b", "http://a;http://b"),
        ("http://a,b:8433", "http://a,b:8433"),
        (["http://a", "ftp://b"], "ftp://b"),
        (["http://a/x,y"], "http://a/x,y"),
        (["http://a", None], None),
    ],
)
def test_a_wrong_list_is_an_error_that_names_what_is_wrong(controller: Any, named: object) -> None:
    with pytest.raises(
        InvalidConfig, match=r'like "http://127\.0\.0\.1:8433", or several of these in a list'
    ) as raised:
        check_addresses(controller)
    assert (raised.value.name, raised.value.value) == ("controller", named)


@pytest.mark.parametrize("again", ["http://a", "http://a/", "http://A", "HTTP://a", "http://a:80"])
def test_the_same_address_twice_is_an_error_that_names_it(again: str) -> None:
    with pytest.raises(InvalidConfig, match="name each address once") as raised:
        check_addresses(["http://a", "http://b", again])
    assert raised.value.value == again


@pytest.mark.parametrize("controller", ["http://a,https://b", ["https://a", "https://b", "http://c"]])
def test_http_beside_https_is_refused(controller: str | Sequence[str]) -> None:
    with pytest.raises(InvalidConfig, match="use https for every address") as raised:
        check_addresses(controller)
    assert raised.value.value == (controller if isinstance(controller, str) else ",".join(controller))


@pytest.mark.parametrize(
    "controller",
    ["http://there,http://user:secret@there", ["http://user:secret@there", "https://b"], "http://user:se,secret@there"],
)
def test_a_password_is_refused_and_not_repeated(controller: str | Sequence[str]) -> None:
    with pytest.raises(InvalidConfig, match="…@there") as raised:
        check_addresses(controller)
    assert "se" not in str(raised.value.value)


# -- which of them ---------------------------------------------------------------------------------------------

ADDRESSES = st.integers(1, 5).map(lambda count: tuple(f"http://{number}" for number in range(count)))
NUMBERS = st.integers(0, 4)
FAILURES = st.lists(NUMBERS)


def after(addresses: Sequence[str], failures: Sequence[int]) -> AddressChoice:
    """A choice after failures of any addresses, as threads report them: late, and more than once."""
    choice = AddressChoice(addresses, time.monotonic)
    for number in failures:
        choice.leave(addresses[number % len(addresses)])
    return choice


SUBJECTS = st.text(max_size=5)


@given(ADDRESSES, FAILURES, SUBJECTS)
def test_an_attempt_tries_every_address_once_and_those_that_failed_last(
    addresses: tuple[str, ...], failures: list[int], subject: str
) -> None:
    order = after(addresses, failures).in_order(subject)
    failed = {addresses[number % len(addresses)] for number in failures}
    assert sorted(order) == sorted(addresses)
    assert set(order[len(order) - len(failed) :]) == failed


@given(ADDRESSES, st.lists(SUBJECTS, min_size=1))
def test_calls_about_one_subject_go_to_one_address_and_return_to_it_a_while_after_it_failed(
    addresses: tuple[str, ...], subjects: list[str]
) -> None:
    now = 0.0
    choice, other = AddressChoice(addresses, lambda: now), AddressChoice(addresses, lambda: now)
    before = [choice.in_order(each) for each in subjects]
    assert [other.in_order(each) for each in subjects] == before  # of every client
    for address in addresses:
        choice.leave(address)
    now = AWAY_S
    assert [choice.in_order(each) for each in subjects] == before


def test_streams_are_spread_over_the_addresses() -> None:
    choice = AddressChoice(("http://a", "http://b", "http://c"), time.monotonic)
    first = Counter(choice.in_order(f"streams/s{number}")[0] for number in range(300))
    assert len(first) == 3 and min(first.values()) > 60


@given(ADDRESSES, FAILURES)
def test_an_address_that_failed_comes_last_however_often_that_is_reported(
    addresses: tuple[str, ...], failures: list[int]
) -> None:
    choice = after(addresses, failures)
    first, *others = choice.in_order()
    choice.leave(first)
    choice.leave(first)
    assert choice.in_order() == (*others, first)
