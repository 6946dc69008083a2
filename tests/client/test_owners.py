"""What a client remembers of the owners of streams and groups, and of their fences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.client.owners import (
    NOTHING,
    OWNER_AVOIDED_MS,
    OWNER_CHARACTERS,
    OWNERS_REMEMBERED,
    KnownOwner,
    OwnerMemory,
    owner_first,
)

NOTES = "/v1/streams/orders/notes"
MARKS = "/v1/streams/orders/marks?after=1"


def answered(owner: str | None = None, fence: int | str | None = None) -> dict[str, str]:
    headers = {} if owner is None else {"strandline-owner": owner}
    return headers if fence is None else {**headers, "strandline-fence": str(fence)}


def told(*answers: dict[str, str], path: str = NOTES, addresses: tuple[str, ...] = ("http://lb",)) -> OwnerMemory:
    """A memory after these answers to requests that had the fence known then."""
    memory = OwnerMemory(addresses)
    for headers in answers:
        memory.learn(path, headers, memory.recall(path, 0).fence)
    return memory


def test_a_stream_is_remembered_for_all_of_its_calls() -> None:
    memory = told(answered("http://b", 3))
    assert memory.recall(MARKS, 0) == memory.recall("/v1/streams/orders", 0) == KnownOwner("http://b", 3)
    for other in ("/v1/streams/orders2/marks", "/v1/reader-groups/orders", "/v1/streams?after=orders", "/v1/notes"):
        assert memory.recall(other, 0) == NOTHING


def test_a_group_is_remembered_beside_a_stream_of_its_name() -> None:
    memory = told(answered("http://b", 3))
    memory.learn("/v1/reader-groups/orders/readers/r1", answered("http://c", 1), 0)
    assert memory.recall("/v1/reader-groups/orders", 0) == KnownOwner("http://c", 1)
    assert memory.recall(NOTES, 0) == KnownOwner("http://b", 3)


def test_answers_about_no_stream_are_not_remembered() -> None:
    assert told(answered("http://b", 3), path="/v1/status").recall("/v1/status", 0) == NOTHING


def test_the_last_answer_says_where_the_owner_is() -> None:
    memory = told(answered("http://b", 3), answered("http://c", 4))
    assert memory.recall(NOTES, 0) == KnownOwner("http://c", 4)
    memory.learn(NOTES, answered(fence=5), 4)
    assert memory.recall(NOTES, 0) == KnownOwner(None, 5)


def test_an_answer_of_a_controller_alone_keeps_the_fence() -> None:
    assert told(answered("http://b", 3), answered()).recall(NOTES, 0) == KnownOwner(None, 3)


def test_an_answer_under_way_for_long_lowers_no_fence() -> None:
    memory = told(answered(fence=5))
    memory.learn(NOTES, answered(fence=4), 3)
    assert memory.recall(NOTES, 0).fence == 5


def test_a_lower_fence_than_was_sent_counts() -> None:
    """The store never gave the one that was sent: the client was moved to another store."""
    assert told(answered(fence=900), answered(fence=4), answered(fence=5)).recall(NOTES, 0).fence == 5


@pytest.mark.parametrize("fence", ["", "-4", "4.0", "four", "٤", "9" * 20])
def test_what_is_no_fence_is_ignored(fence: str) -> None:
    assert told(answered(fence=3), answered(fence=fence)).recall(NOTES, 0).fence == 3


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans())))
def test_the_fence_that_is_sent_is_the_greatest_of_a_store(answers: list[tuple[int, bool]]) -> None:
    """Answers of one store have at least the fence of their request; some requests were sent before all answers."""
    memory, greatest = told(), 0
    for fence, sent_early in answers:
        sent = 0 if sent_early else memory.recall(NOTES, 0).fence
        if fence >= sent:
            memory.learn(NOTES, answered(fence=fence), sent)
            greatest = max(greatest, fence)
        assert memory.recall(NOTES, 0).fence == greatest


@pytest.mark.parametrize(
    "named",
    ["ftp://b", "b:8433", "", "http://", "http://user:secret@b", "http://b,http://c", "http://b?x=1", "http://b:0"],
)
def test_an_owner_without_a_usable_address_is_not_gone_to(named: str) -> None:
    assert told(answered(named, 3)).recall(NOTES, 0) == KnownOwner(None, 3)
    assert told(answered("http://" + "b" * OWNER_CHARACTERS, 3)).recall(NOTES, 0) == KnownOwner(None, 3)


def test_a_token_for_https_goes_to_no_owner_with_http() -> None:
    for scheme in ("https", "HTTPS"):
        secured = (f"{scheme}://lb",)
        assert told(answered("http://b"), addresses=secured).recall(NOTES, 0) == NOTHING
        assert told(answered("https://b"), addresses=secured).recall(NOTES, 0).owner == "https://b"
    assert told(answered("https://b")).recall(NOTES, 0).owner == "https://b"


def test_an_owner_that_could_not_serve_is_forgotten_and_its_fence_is_kept() -> None:
    memory = told(answered("http://b", 3))
    memory.forget(NOTES, "http://c")
    assert memory.recall(NOTES, 0) == KnownOwner("http://b", 3)
    memory.forget(MARKS, "http://b")
    assert memory.recall(NOTES, 0) == KnownOwner(None, 3)


def test_an_owner_that_was_not_reached_is_avoided_for_all_streams_for_a_while() -> None:
    memory = told(answered("http://b", 3))
    memory.learn("/v1/streams/other", answered("http://b", 1), 0)
    memory.avoid("http://b", 1_000)
    for path, fence in ((NOTES, 3), ("/v1/streams/other", 1)):
        assert memory.recall(path, 999 + OWNER_AVOIDED_MS) == KnownOwner(None, fence)
        assert memory.recall(path, 1_000 + OWNER_AVOIDED_MS) == KnownOwner("http://b", fence)


def test_the_stream_that_was_used_longest_ago_is_forgotten_first() -> None:
    memory = told()
    for number in range(OWNERS_REMEMBERED):
        memory.learn(f"/v1/streams/s{number}", answered(fence=1), 0)
    memory.learn("/v1/streams/s0", answered(fence=2), 1)
    memory.learn("/v1/streams/one-more", answered(fence=1), 0)
    assert memory.recall("/v1/streams/s1", 0) == NOTHING
    assert memory.recall("/v1/streams/s0", 0) == KnownOwner(None, 2)


def test_an_attempt_tries_the_owner_before_all_other_addresses() -> None:
    addresses = ("http://a", "http://b", "http://c")
    assert owner_first(None, addresses) == addresses
    assert owner_first("http://b", addresses) == ("http://b", "http://a", "http://c")
    assert owner_first("http://d", addresses) == ("http://d", *addresses)
