"""`audit` of a real Kafka topic beside an open transaction. tests/logs/test_kafka_page.py has the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from strandline.logs import Event
from strandline.logs.kafka import KafkaLog
from tests.commands.conftest import Run

pytestmark = pytest.mark.full

NOON = 1_700_000_000_000
# segment, time in seconds after NOON: the fourth event comes 8 s late
ROWS = [("0", 0), ("1", 1), ("0", 10), ("1", 2), ("0", 70), ("0", 71), ("1", 69)]


@pytest.fixture
def topic(kafka: Any, served: Any) -> str:
    """A topic with the events; the stream has the same name, and its marks promise what is true of them."""
    name: str = served.stream(min_writers=2)
    kafka.create_topic(name, 2)
    with KafkaLog.connect(kafka.servers, name) as log:
        log.append(events(ROWS))
        log.flush()
    served.note(name, "a", NOON + 72_000, s0=4)
    served.note(name, "b", NOON + 70_000, s1=3)
    return name


def events(rows: Sequence[tuple[str, int]]) -> list[Event]:
    return [Event(json.dumps({"at": NOON + 1000 * after}).encode(), segment=segment) for segment, after in rows]


def test_an_audit_beside_an_open_transaction_says_from_where_nothing_was_judged(
    kafka: Any, topic: str, served: Any, strandline: Run
) -> None:
    """The marks reach beyond what can be read: nothing is lost, and all is judged after the commit."""
    producer = Producer({**kafka.client, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, json.dumps({"at": NOON + 90_000}).encode(), partition=0)
    producer.flush()
    with KafkaLog.connect(kafka.servers, topic) as log:
        log.append(events([("0", 80)]))
        log.flush()
    served.note(topic, "a", NOON + 81_000, s0=6)
    where = ("audit", topic, "--servers", kafka.servers, "--field", "at")
    done = strandline(*where)
    assert done.code == 0
    assert "segment 0: from offset 4 on nothing was judged, since a transaction is open there" in done.out
    assert "lost events" not in done.out
    producer.commit_transaction()
    kafka.wait_until_decided(topic)
    found = json.loads(strandline(*where, "--json").out)
    assert (found["events"], found["undecided"], found["beyond_the_log"]) == (len(ROWS) + 2, {}, {})
