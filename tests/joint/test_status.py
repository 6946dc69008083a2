"""The status of all streams and groups, asked of any of two controllers that serve one PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from controller.cluster.records import Kind
from tests.joint.pair import OF_ONE, OF_TWO, Pair, names_in, pair
from tests.postgres import Postgres

pytestmark = pytest.mark.full

HERE = names_in(Kind.STREAM, OF_ONE, 3, "a")
THERE = names_in(Kind.STREAM, OF_TWO, 3, "b")
GROUP_HERE = names_in(Kind.GROUP, OF_ONE, 1, "g")[0]
GROUP_THERE = names_in(Kind.GROUP, OF_TWO, 1, "h")[0]
EVERY = sorted(HERE + THERE)
# The first is furthest behind. Both controllers have streams between those of the other one.
BY_LAG = [name for both in zip(HERE, THERE, strict=True) for name in both]


@pytest.fixture(scope="module")
def both(postgres: Postgres) -> Iterator[Pair]:
    with pair(postgres.new_database()) as made:
        now = time.time_ns() // 1_000_000
        for place, stream in enumerate(BY_LAG):
            made.stuck(stream, now - 900_000 + 100_000 * place, now)
        for group, stream in ((GROUP_HERE, HERE[0]), (GROUP_THERE, THERE[0])):
            made.done(made.one, "PUT", f"/v1/reader-groups/{group}", {"streams": [stream]})
        made.begin_two(THERE)
        yield made


def whole(both: Pair, process: Any, query: str = "", *, token: str | None = None) -> Any:
    """The status once nothing is missing, and once every stream stands still for long enough to be in trouble."""
    return both.until(
        process,
        f"/v1/status{query}",
        lambda answer: (
            answer.is_success
            and not answer.json()["unread"]
            and not answer.json()["unread_groups"]
            and answer.json()["counts"]["in_memory"] == answer.json()["counts"]["streams"]
            and all(each["trouble"] for each in answer.json()["streams"])
        ),
        token=token,
    )


def names(status: Any) -> list[str]:
    return [each["stream"] for each in status["streams"]]


def test_each_controller_shows_all_streams_and_groups(both: Pair) -> None:
    for process in (both.one, both.two):
        told = whole(both, process)
        assert names(told) == EVERY
        assert {each["held_by"][""]["writer"] for each in told["streams"]} == {"slow"}
        assert sorted(each["group"] for each in told["groups"]) == sorted([GROUP_HERE, GROUP_THERE])
        counts = told["counts"]
        assert (counts["streams"], counts["in_memory"], counts["writers"]) == (len(EVERY), len(EVERY), 2 * len(EVERY))


def test_the_worst_over_all_controllers_come_first(both: Pair) -> None:
    for process in (both.one, both.two):
        whole(both, process)
        assert names(both.ask(process, "/v1/status?trouble=true").json()) == BY_LAG
        assert names(both.ask(process, "/v1/status?trouble=true&limit=3").json()) == BY_LAG[:3]


def test_pages_and_named_streams_cross_controllers(both: Pair) -> None:
    for process in (both.one, both.two):
        first = whole(both, process, "?limit=4")
        rest = whole(both, process, f"?limit=4&after={first['next']}")
        assert names(first) + names(rest) == EVERY and rest["next"] is None
        named = whole(both, process, f"?stream={HERE[1]}&stream={THERE[1]}&stream=nowhere")
        assert names(named) == [HERE[1], THERE[1]]


def test_a_token_shows_what_it_allows_of_other_controllers_too(both: Pair) -> None:
    token = both.reader("b*")
    for process in (both.one, both.two):
        told = whole(both, process, token=token)
        assert names(told) == sorted(THERE) and told["counts"]["streams"] == len(THERE)
        assert [each["group"] for each in told["groups"]] == [GROUP_THERE]


def test_a_token_shows_nothing_of_another_controller_that_it_does_not_allow(both: Pair) -> None:
    token = both.reader(HERE[0])
    for process in (both.one, both.two):
        refused = both.ask(process, f"/v1/status?stream={THERE[0]}", token=token)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        hidden = both.ask(process, f"/v1/status?group={GROUP_THERE}", token=token).json()
        assert (hidden["groups"], hidden["unread_groups"]) == ([], {})
        shown = both.ask(process, f"/v1/status?group={GROUP_THERE}&group={GROUP_HERE}").json()
        assert [each["group"] for each in shown["groups"]] == sorted([GROUP_HERE, GROUP_THERE])


def test_no_controller_asks_another_one_for_a_visitor_who_may_not_see_the_group(both: Pair) -> None:
    """The answer is shared: an administrator who asks at the same moment would get the visitor's refusal."""
    group = names_in(Kind.GROUP, OF_TWO, 2, "h")[1]
    both.done(both.one, "PUT", f"/v1/reader-groups/{group}", {"streams": [HERE[0]]})
    cookie = {"Cookie": f"strandline_token={both.reader('b*')}"}
    for process in (both.one, both.two):
        refused = process.client.get(f"/reader-groups/{group}", headers=cookie)
        assert refused.status_code == 403 and "may not see this" in refused.text, refused.text
    assert both.ask(both.one, f"/v1/reader-groups/{group}", method="DELETE").is_success


def test_only_a_controller_asks_another_one_for_its_part(both: Pair) -> None:
    def code(**headers: str) -> str:
        shown = {"Authorization": f"Bearer {both.admin}", **headers}
        return str(both.two.client.get(f"/v1/status?stream={THERE[0]}", headers=shown).json()["code"])

    assert code(**{"Strandline-Hop": "1", "Strandline-For": "5"}) == "not_owner"
    assert code(**{"Strandline-Hop": "2"}) == "bad_request"
    assert code(Authorization="none") == "unauthenticated"
