"""Drawn histories of writers over real Kafka, and bugs that they have to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.client.http import Connection
from strandline.logs.kafka import KafkaLog, TrackedProducer
from tests.drawn import Bug, Patch, planted
from tests.histories.kafka_history import LAG_MS, over
from tests.kafka import Kafka
from tests.served import served
from writer_client.machine import Machine
from writer_client.session import WriterSession

pytestmark = pytest.mark.full


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with served(tmp_path / "store.db") as connection:
        yield connection


@pytest.fixture(scope="module")
def wired(new_kafka: Callable[..., Kafka]) -> Iterator[Kafka]:
    """A broker for histories that kill it, and lose its answers."""
    started = new_kafka(1, wired=True)
    yield started
    started.remove()


@pytest.fixture
def three_wired(new_kafka: Callable[..., Kafka], monkeypatch: Patch) -> Iterator[Kafka]:
    monkeypatch.setattr("strandline.logs.kafka.KAFKA_LAG_MS", LAG_MS)
    started = new_kafka(3, wired=True)
    yield started
    started.remove()


@pytest.mark.parametrize("begin", [0, 10])
def test_every_complete_mark_is_true_over_kafka(kafka: Kafka, connection: Connection, begin: int) -> None:
    over(kafka, connection).histories(range(begin, begin + 6))


@pytest.mark.timeout(900)
def test_it_is_where_events_and_commits_are_given_up_that_the_broker_takes(
    wired: Kafka, connection: Connection
) -> None:
    over(wired, connection).histories(range(3, 6))


@pytest.mark.timeout(900)
def test_it_is_where_one_of_three_brokers_is_killed_besides(three_wired: Kafka, connection: Connection) -> None:
    over(three_wired, connection).histories(range(100, 102))


def notes_newest_over_what_its_producer_sent(patch: Patch) -> None:
    patch.setattr(Machine, "known", lambda self, own, given: given or self.newest.greatest)


def looks_at_no_end(patch: Patch) -> None:
    patch.setattr(KafkaLog, "end_offsets", lambda self: {})


def counts_an_event_that_timed_out_as_not_written(patch: Patch) -> None:
    patch.setattr(TrackedProducer, "_pass_doubtful", lambda self, topic: self.deliveries(topic.name).doubtful.clear())


def counts_a_commit_that_was_not_answered_as_over(patch: Patch) -> None:
    patch.setattr(TrackedProducer, "_settle", lambda self, topic: None)


def leaves_during_a_transaction_of_its_producer(patch: Patch) -> None:
    patch.setattr(WriterSession, "_check_no_other_transaction", lambda self, call: None)


# Each with what it needs: `wired` brokers, where answers have to be lost for it.
BUGS = {
    Bug.of(notes_newest_over_what_its_producer_sent, 239): "kafka",
    Bug.of(looks_at_no_end, 302): "kafka",
    Bug.of(leaves_during_a_transaction_of_its_producer, 8): "kafka",
    Bug.of(counts_an_event_that_timed_out_as_not_written, 2): "wired",
    Bug.of(counts_a_commit_that_was_not_answered_as_over, 15): "wired",
}


@pytest.mark.timeout(900)
@planted(*BUGS)
def test_a_planted_bug_is_found_over_kafka(
    request: pytest.FixtureRequest, connection: Connection, bug: Bug, monkeypatch: Patch
) -> None:
    over(request.getfixturevalue(BUGS[bug]), connection).finds(bug, monkeypatch)
