"""Controllers in processes of their own on one PostgreSQL: killed, stopped beyond their lease, and ended in order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from tests.joint.process import Controller, until, until_done
from tests.postgres import Postgres

pytestmark = pytest.mark.full

STREAMS = [f"s{number}" for number in range(8)]


@pytest.fixture
def start() -> Iterator[Callable[[str, str], Controller]]:
    with ExitStack() as ended:

        def started(url: str, name: str) -> Controller:
            controller = Controller(url, name)
            ended.callback(controller.end)
            return controller

        yield started


def note_all(controllers: Sequence[Controller], time: int) -> dict[str, Controller]:
    """Notes in every stream; returns the owner of each."""
    return {stream: until_done(controllers, f"note {stream} {time}") for stream in STREAMS}


def gapless(controllers: Sequence[Controller], last: int) -> None:
    """Every stream has the marks up to this one, each once."""
    marks = " ".join(str(seq) for seq in range(1, last + 1))
    for stream in STREAMS:
        until(controllers, f"marks {stream}", lambda answer: answer == marks)


def test_the_streams_of_a_killed_controller_are_served_again(
    postgres_url: str, start: Callable[[str, str], Controller]
) -> None:
    one, two, three = (start(postgres_url, name) for name in ("one", "two", "three"))
    for stream in STREAMS:
        until_done([one, two, three], f"create {stream}")
    owners = note_all([one, two, three], 1)
    one.end(signal.SIGKILL)
    assert one in owners.values()
    note_all([two, three], 2)
    gapless([two, three], 2)


def test_a_controller_that_was_stopped_beyond_its_lease_begins_anew(
    postgres_url: str, start: Callable[[str, str], Controller]
) -> None:
    one, two = start(postgres_url, "one"), start(postgres_url, "two")
    for stream in STREAMS:
        until_done([one, two], f"create {stream}")
    note_all([one, two], 1)
    one.send(signal.SIGSTOP)
    note_all([two], 2)
    one.send(signal.SIGCONT)
    for stream in STREAMS:
        assert one.call(f"marks {stream}") in ("away", "1 2")
    note_all([one, two], 3)
    gapless([one, two], 3)


def test_a_controller_that_is_terminated_leaves_everything_to_the_others(
    postgres_url: str, start: Callable[[str, str], Controller]
) -> None:
    one, two = start(postgres_url, "one"), start(postgres_url, "two")
    for stream in STREAMS:
        until_done([one, two], f"create {stream}")
    note_all([one, two], 1)
    assert one.end(signal.SIGTERM) == 0
    note_all([two], 2)
    gapless([two], 2)


def test_a_later_controller_of_the_same_name_stops_the_earlier(
    postgres_url: str, start: Callable[[str, str], Controller]
) -> None:
    first = start(postgres_url, "one")
    for stream in STREAMS:
        until_done([first], f"create {stream}")
    note_all([first], 1)
    second = start(postgres_url, "one")
    note_all([second], 2)
    gapless([second], 2)
    assert first.wait() == 0


def test_controllers_go_on_after_postgresql_was_killed(
    new_postgres: Callable[..., Postgres], start: Callable[[str, str], Controller]
) -> None:
    postgres = new_postgres()
    url = postgres.new_database()
    one, two = start(url, "one"), start(url, "two")
    for stream in STREAMS:
        until_done([one, two], f"create {stream}")
    note_all([one, two], 1)
    postgres.stop(signal.SIGQUIT)
    assert one.call(f"note {STREAMS[0]} 2") == two.call(f"note {STREAMS[0]} 2") == "away"
    postgres.start()
    note_all([one, two], 2)
    gapless([one, two], 2)
