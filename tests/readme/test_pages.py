"""Pages that need no more than a controller and an embedded log do what they show, and print what they say."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import httpx
import pytest
import yaml

from controller.cli import COMMANDS
from controller.storage.database import check_store
from reader_client import ReaderGroup
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.note import Note
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from tests.readme.pages import CONTROLLER, ROOT, Block, Stranger, blocks_of
from tests.served import AT_ONCE

pytestmark = pytest.mark.full

ALERTS = ROOT / "controller" / "operations" / "alerts.yml"
TIMES = [1_000, 4_000, 11_000, 9_000, 23_000, 31_000]


TASKS = [
    "transactions",
    "a-writer-that-died",
    "scale-segments",
    "check",
    "retention",
    "time-has-leapt",
    "behind-a-proxy",
    "in-your-application",
    "writers-that-come-and-go",
    "windows-that-survive",
    "join-two-streams",
    "chained-programs",
    "ask-for-status",
    "hourly-job",
    "what-a-delay-loses",
    "did-writers-keep-their-word",
]


@pytest.mark.parametrize("page", TASKS)
def test_a_task_can_be_done_as_its_page_says(page: str, controller: str, tmp_path: Path) -> None:
    with Stranger(tmp_path, controller=controller) as stranger:
        stranger.walk(f"docs/how-to/{page}.md")


def test_the_page_about_alerts_sets_them_up_and_knows_every_one(controller: str, tmp_path: Path) -> None:
    page = "docs/how-to/alerts.md"
    with Stranger(tmp_path, controller=controller) as stranger:
        stranger.walk(page)
    assert (tmp_path / "alerts.yml").read_bytes() == ALERTS.read_bytes()
    assert (tmp_path / "prometheus.token").read_text().startswith("slt_")
    target = controller.removeprefix("http://")
    for name, scraped in (("prometheus", target), ("prometheus-with-token", "controller.example:8433")):
        found = yaml.safe_load((tmp_path / f"{name}.yml").read_text())
        assert found["rule_files"] == ["alerts.yml"]
        assert found["scrape_configs"][0]["static_configs"] == [{"targets": [scraped]}]
    rules = [rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    text = (ROOT / page).read_text()
    assert [rule for rule in rules if f"`{rule}`" not in text.partition("## What can go wrong")[0]] == []


def test_the_page_about_clocks_has_the_way_out(controller: str, tmp_path: Path) -> None:
    check_store(str(tmp_path / "store.db"))
    with Connection(controller) as connection:
        connection.run(calls.create_stream("orders", 2, AT_ONCE))
    with Stranger(tmp_path, controller=controller) as stranger:
        stranger.walk("docs/how-to/clocks.md")


@pytest.mark.full
def test_the_page_about_running_a_controller_rescues_a_store_that_was_removed(tmp_path: Path) -> None:
    with Stranger(tmp_path) as stranger:
        stranger.walk("docs/how-to/keep-it-running.md")


def test_the_page_about_several_controllers_starts_two_at_one_port(postgres_url: str, tmp_path: Path) -> None:
    there = {"postgresql://strandline@db.example/strandline": postgres_url}
    with Stranger(tmp_path, replaced=there) as stranger:
        stranger.walk("docs/how-to/several-controllers.md")
        found = httpx.get(f"{stranger.controller}/v1/controllers").json()["controllers"]
        assert len({each["name"] for each in found}) == 2


def test_the_page_about_the_dashboard_begins_with_what_serves_it(controller: str, tmp_path: Path) -> None:
    with Stranger(tmp_path, controller=controller) as stranger:
        stranger.walk("docs/dashboard.md")
    assert "Strandline" in httpx.get(controller).text


def test_the_page_about_writers_notes_what_it_says(controller: str, tmp_path: Path) -> None:
    with Connection(controller) as connection:
        connection.run(calls.create_stream("orders", 2, AT_ONCE))
        with Stranger(tmp_path, controller=controller) as stranger:
            stranger.walk("docs/writers.md")
        marks = connection.run(calls.marks("orders")).marks
        described = connection.run(calls.describe("orders"))
    assert (marks[0].time, marks[0].newest) == (1_700_000_000_001, 1_700_000_000_000)
    assert described.writers == {"active": 8, "closed": 1}


def test_the_page_about_readers_reads_what_was_written(controller: str, tmp_path: Path) -> None:
    said = []
    with (
        Connection(controller) as connection,
        SqliteLog.create(tmp_path / "orders.log", 2) as log,
        Stranger(tmp_path, controller=controller) as stranger,
    ):
        connection.run(calls.create_stream("orders", 2, AT_ONCE))
        log.append([Event(b"%d" % time, key=b"w%d" % (time % 2)) for time in TIMES])
        position = {segment: offset for segment, offset in log.end_offsets().items() if offset}
        connection.run(calls.note("orders", Note(writer="w", times={"": 32_000}, position=position)))
        log.append([Event(b"5", key=b"dawdler")])  # late, by 32 s
        connection.run(calls.seal("orders", log.seal()))
        for name in ("counting", "strict", "pricing", "sorting"):
            with ReaderGroup(connection, name) as group:
                group.create(["orders"])
        for block in blocks_of("docs/readers.md"):
            if block.language == "python":  # the benchmarks of this page have tests of their own
                stranger.do(block)
                said.append(stranger.said.splitlines())
        stranger.names["logs"]["orders"].close()
    events, windows, waited, late, work, sorted_, order, changed, backlog, position_ = said
    assert len(events) == 8 and "nothing older than 32000 follows" in events
    assert sum(int(line.split()[-1]) for line in windows) >= 5  # 31 000 lies in a window that is still open
    assert len(waited) == len(set(waited)) and all(line.endswith("True ()") for line in waited)
    assert late[0].startswith(("6 on time, 1 late", "7 on time, 0 late"))  # late once the bound was known
    assert len(work) == 8 and "W 32000" in work
    assert sorted_[-1] == "in order: True"
    assert any("32000" in line for line in order)
    assert changed == []  # the group was changed, and nothing is said of it
    assert backlog[0] == "backlog: True"
    assert position_[-1] == "0"


def test_every_command_of_the_page_about_the_command_line_does_something(controller: str, tmp_path: Path) -> None:
    with Connection(controller) as connection, SqliteLog.create(tmp_path / "clicks.log", 2) as log:
        log.append([Event(b"x", segment="0")])
        for stream in ("orders", "payments"):
            connection.run(calls.create_stream(stream, 2, AT_ONCE))
        httpx.put(f"{controller}/v1/streams/clicks", json={"segments": 2, "time_domain": "ingestion"})
        for writer, time in (("w1", 20), ("w3", 10)):
            times = {"": time, "ship_time": time}
            connection.run(calls.note("orders", Note(writer=writer, times=times, position={"0": 5, "1": 7})))
        with ReaderGroup(connection, "billing") as group:
            group.create(["orders"])
    shown = set()
    with Stranger(tmp_path, controller=controller) as stranger:
        for block in blocks_of("docs/command-line.md"):
            if "--servers" not in block.text:  # those need Kafka
                stranger.do(block)
                shown |= {line.split()[1] for line in block.text.splitlines()}
    assert set(COMMANDS) - shown == {"backup", "check", "demo", "migrate", "relay", "restore", "serve"}


# -- the stranger --------------------------------------------------------------------------------------------------


def test_what_a_page_prints_is_compared_and_three_dots_stand_for_anything(tmp_path: Path) -> None:
    with Stranger(tmp_path) as stranger:
        stranger.do(Block("page", 1, "python", "print('3 events', 'now')"))
        stranger.do(Block("page", 2, "text", "… events   now\n"))
        with pytest.raises(AssertionError, match="it printed"):
            stranger.do(Block("page", 3, "text", "4 events now\n"))


@pytest.mark.parametrize("command", ["strandline streams --nothing", "false", "make nothing", "pip install requests"])
def test_a_command_that_does_not_work_is_found(command: str, tmp_path: Path) -> None:
    with Stranger(tmp_path) as stranger, pytest.raises(AssertionError):
        stranger.do(Block("page", 1, "sh", command))


def test_an_answer_that_is_a_problem_is_found(controller: str, tmp_path: Path) -> None:
    with Stranger(tmp_path, controller=controller) as stranger, pytest.raises(AssertionError, match="unknown_stream"):
        stranger.do(Block("page", 1, "sh", f"curl {CONTROLLER}/v1/streams/nowhere"))


def test_a_block_that_names_a_file_is_saved_and_others_run(tmp_path: Path) -> None:
    with Stranger(tmp_path) as stranger, redirect_stdout(io.StringIO()):
        stranger.do(Block("page", 1, "python", "# told.py\nimport sys\nprint(sys.argv[1])\n"))
        stranger.do(Block("page", 2, "sh", "python told.py me\n"))
        stranger.do(Block("page", 3, "text", "me\n"))
