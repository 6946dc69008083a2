"""What the pages about Kafka show works as it stands there, on a real broker and a real controller, and what commands
say of a topic."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.cli import main
from strandline.logs import Event
from strandline.logs.kafka import KafkaLog
from tests.kafka import Kafka
from tests.readme.pages import Block, Stranger, blocks_of
from tests.served import ROOT, OwnProcess
from writer_client.relay.records import read_record

NOTES_PAGE = "docs/how-to/notes-through-kafka.md"
TOPICS = {"strandline-notes": 2, "visits": 2, "orders": 1, "payments": 3, "clicks": 2, "web.clicks": 2}


@pytest.fixture(scope="module")
def topics(kafka: Kafka) -> Kafka:
    for name, partitions in TOPICS.items():
        kafka.recreate_topic(name, partitions, config={"message.timestamp.type": "LogAppendTime"})
    return kafka


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnProcess]:
    started = OwnProcess(tmp_path_factory.mktemp("pages") / "store.db")
    yield started
    started.stop()


@pytest.fixture
def stranger(topics: Kafka, process: OwnProcess, tmp_path: Path) -> Iterator[Stranger]:
    with Stranger(tmp_path, controller=process.url, replaced={"127.0.0.1:9092": topics.servers}) as begun:
        yield begun


def writers_of(stranger: Stranger, stream: str) -> dict[str, Any]:
    found = httpx.get(f"{stranger.controller}/v1/streams/{stream}/writers").json()["writers"]
    return {each["writer"]: (each["times"].get(""), each["position"]) for each in found}


def test_the_page_about_kafka_notes_what_it_says(stranger: Stranger) -> None:
    stranger.walk("docs/kafka.md")
    assert writers_of(stranger, "orders") == {
        "w1": (1700000000011, {"0": 3}),
        "w2": (1700000000003, {"0": 2}),
        "w3": (1700000000004, {"0": 42}),
    }


def test_the_page_about_an_existing_topic_makes_its_windows_exact(stranger: Stranger) -> None:
    stranger.walk("docs/how-to/existing-kafka-topic.md")
    positions = [position for _, position in writers_of(stranger, "payments").values()]
    ends = [max((position.get(segment, 0) for position in positions), default=0) for segment in ("0", "1", "2")]
    assert sum(ends) == 64


def test_the_commands_that_watch_a_topic_do(stranger: Stranger) -> None:
    Path("client.properties").write_text("client.id=tail\n")
    stream = f"{stranger.controller}/v1/streams/clicks"
    httpx.put(stream, json={"segments": "open", "time_domain": "ingestion"}).raise_for_status()
    for block in blocks_of("docs/command-line.md"):
        if "--servers" in block.text:
            stranger.do(block)
    stranger.do(Block("this test", 1, "sh", "strandline marks clicks --follow"))  # which waits for one
    found = httpx.get(f"{stream}/writers").json()["writers"]
    assert {each["writer"].startswith("tail-") for each in found} == {True}


@pytest.mark.full
def test_the_page_about_notes_through_kafka_relays_what_a_console_producer_says(
    stranger: Stranger, topics: Kafka
) -> None:
    httpx.delete(f"{stranger.controller}/v1/streams/orders")  # of another page
    for block in blocks_of(NOTES_PAGE):
        if block.language == "sh":
            stranger.do(block)
    text = (ROOT / NOTES_PAGE).read_text()
    (line,) = re.findall(r"^> till-7\|(.*)$", text, re.MULTILINE)
    with KafkaLog.connect(topics.servers, "strandline-notes") as notes:
        notes.append([Event(line.encode(), key=b"till-7")])
    until = time.monotonic() + 60
    while (found := writers_of(stranger, "orders")).get("till-7", (None,))[0] != 1767268800000:
        assert time.monotonic() < until, found
        time.sleep(0.1)


def test_the_records_of_that_page_are_notes() -> None:
    shown = [block for block in blocks_of(NOTES_PAGE) if block.language == "json"]
    assert [read_record(block.text.encode()).times for block in shown] == [{"": 1767268800000}]
    text = (ROOT / NOTES_PAGE).read_text()
    for says in re.findall(r'^\| `("[^`]*)` \|', text, re.MULTILINE):
        read_record(b'{"stream": "s", "writer": "w", %s}' % says.encode())


def test_the_readmes_command_says_what_a_delay_loses_in_a_topic(
    topics: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    topics.create_topic("readme", 1)
    with KafkaLog.connect(topics.servers, "readme") as log:
        log.append([Event(json.dumps({"time": time}).encode(), segment="0") for time in (1_000, 90_000, 2_000)])
    lines = [line for block in blocks_of("README.md") for line in block.text.splitlines()]
    (command,) = [line for line in lines if line.startswith("strandline assess ")]
    here = command.replace("localhost:9092", topics.servers).replace("orders", "readme")
    assert main(here.split()[1:]) == 0
    assert "3 events" in capsys.readouterr().out


def test_commands_that_judge_the_events_of_a_topic_read_it(
    topics: Kafka, process: OwnProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(*times: int) -> None:
        with KafkaLog.connect(topics.servers, "visits") as log:
            log.append([Event(json.dumps({"at": time}).encode(), segment="1") for time in times])

    def said(command: str, *words: str) -> tuple[int, Any]:
        code = main([command, *words, "--servers", topics.servers, "--field", "at", "--json"])
        return code, json.loads(capsys.readouterr().out)

    process.client.put("/v1/streams/visits", json={"segments": "open", "mark_interval_ms": 0}).raise_for_status()
    write(1_000, 5_000)
    note = {"writer": "w1", "time": 6_000, "position": {"1": 2}}
    process.client.post("/v1/streams/visits/notes", json=note).raise_for_status()
    write(7_000)
    code, found = said("audit", "visits", "--controller", process.url)
    assert (code, found["events"], found["position"]) == (0, 3, {"0": 0, "1": 2})
    write(5_999)
    code, found = said("audit", "visits", "--controller", process.url)
    assert (code, [(each["offset"], each["late_by_ms"]) for each in found["late"]]) == (1, [(3, 1)])
    code, found = said("assess", "--topic", "visits", "--delays", "0,1s,2s")
    assert (code, found["total"]["late"], found["total"]["most_behind_ms"]) == (0, [1, 1, 0], 1_001)
