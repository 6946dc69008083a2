"""Drawn histories of writers over real Kafka, and bugs that they have to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.client.http import Connection
from strandline.logs.kafka import KafkaLog
from tests.histories.history import Untrue
from tests.histories.kafka_history import KafkaHistory
from tests.kafka import Kafka
from tests.served import served
from writer_client.session import WriterSession

pytestmark = pytest.mark.full
Patch = pytest.MonkeyPatch


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with served(tmp_path / "store.db") as connection:
        yield connection


@pytest.mark.parametrize("begin", [0, 10])
def test_every_complete_mark_is_true_over_kafka(kafka: Kafka, connection: Connection, begin: int) -> None:
    for seed in range(begin, begin + 10):
        KafkaHistory(seed, kafka, connection).run()


def test_it_is_while_brokers_are_killed_and_events_given_up(three_brokers: Kafka, connection: Connection) -> None:
    for seed in range(100, 103):
        KafkaHistory(seed, three_brokers, connection, kills=True).run()


def notes_newest_over_what_its_producer_sent(patch: Patch) -> None:
    patch.setattr(WriterSession, "known", lambda self, own, given: given or self.newest.greatest)


def looks_at_no_end(patch: Patch) -> None:
    patch.setattr(KafkaLog, "end_offsets", lambda self: {})


BUGS = (notes_newest_over_what_its_producer_sent, looks_at_no_end)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_over_kafka(
    kafka: Kafka, connection: Connection, bug: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    bug(monkeypatch)
    with pytest.raises(Untrue):
        for seed in range(200 + 100 * BUGS.index(bug), 300 + 100 * BUGS.index(bug)):
            KafkaHistory(seed, kafka, connection).run()
