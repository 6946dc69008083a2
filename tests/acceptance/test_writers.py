"""No event is late in silence, whatever happens to its writer, or to a broker."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from msgspec import structs

from strandline.client.http import Connection
from tests.acceptance.late_events import Evidence, Told, Written, judge
from tests.acceptance.sqlite_place import SqlitePlace
from tests.acceptance.story import FULL, Pace, tell
from tests.served import served

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with served(tmp_path_factory.mktemp("controller") / "strandline.db") as connection:
        yield connection


@pytest.fixture(scope="module", params=["sqlite", "kafka"])
def evidence(
    request: pytest.FixtureRequest, connection: Connection, tmp_path_factory: pytest.TempPathFactory
) -> Evidence:
    folder = tmp_path_factory.mktemp("story")
    full = os.environ.get("STORY") == "full"  # a minute away, as `make soak` has it, or less
    if request.param == "sqlite":
        pace = FULL if full else Pace()
        return tell(connection, "orders", SqlitePlace(folder / "orders.log"), folder, pace, transactions=True)
    from tests.acceptance.kafka_place import PACE, KafkaPlace

    place = KafkaPlace(request.getfixturevalue("three_brokers"), "orders")
    return tell(connection, "orders-in-kafka", place, folder, FULL if full else PACE, transactions=True)


def test_no_event_is_late_in_silence(evidence: Evidence) -> None:
    judgement = judge(evidence)
    assert judgement.silent[:3] == []
    assert judgement.disorder == []


def test_the_story_was_told_in_full(evidence: Evidence) -> None:
    counts = Counter(event.process for event in evidence.events)
    assert counts.keys() == {"w1#1", "w1#2", "w2#1", "w2#2", "w3#1"}
    assert {event.segment for event in evidence.events} == {"0", "1", "2", "3", "4"}
    assert {name for mark in evidence.marks for name in mark.excluded} >= {"w1", "w3"}
    assert evidence.told["w2#1"][-1].refused in ("fenced", "log_fenced")
    assert evidence.marks[-1].complete


def test_everything_noted_lies_below_the_last_mark(evidence: Evidence) -> None:
    last = evidence.marks[-1]
    newest = max(event.time for event in evidence.events)
    assert newest - last.time < 1_000
    assert sum(last.cut.values()) > 0


def test_a_mark_that_does_not_name_the_lost_writer_is_found_out(evidence: Evidence) -> None:
    """The judge can find something: put an event where a lost writer may have left one, and take away what is said."""
    lost = next(mark for mark in evidence.marks if "w1" in mark.excluded)
    segment, offset = next(iter(lost.cut.items()))
    left = replace(evidence, events=[*evidence.events, Written("w1#1", 1_000_000, lost.time - 1, segment, offset)])
    assert judge(left).silent == []
    assert judge(left).said["incomplete"] >= 1
    marks = [structs.replace(mark, excluded=(), complete=True) for mark in evidence.marks]
    told = {process: [Told(each.written) for each in given] for process, given in evidence.told.items()}
    assert judge(replace(left, marks=marks, told=told)).silent


def test_a_mark_that_claims_too_much_is_found_out(evidence: Evidence) -> None:
    sixth = len(evidence.marks) // 6
    marks = [structs.replace(mark, time=mark.time + 3_000) for mark in evidence.marks[:sixth]]
    assert judge(replace(evidence, marks=marks)).silent
