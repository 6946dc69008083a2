"""What operators see of controllers that serve together, and how they drain one. The processes are started once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.cli import main
from controller.cluster.records import LEASE_MS, SHARDS
from controller.status.metric_families import AMONG_OTHERS
from tests.joint.test_served import PATIENCE_S, STREAM, STREAMS, done, end, until
from tests.operations.scraping import read
from tests.ports import free_port
from tests.postgres import Postgres
from tests.served import InProcess, OwnProcess

pytestmark = pytest.mark.full

Start = Callable[..., OwnProcess]


@pytest.fixture(scope="module")
def start(postgres: Postgres) -> Iterator[Start]:
    """Starts controllers of one store."""
    url = postgres.new_database()
    with ExitStack() as ended:

        def started(name: str, **options: str) -> OwnProcess:
            port = free_port()
            options = {"address": f"http://127.0.0.1:{port}", **options}
            words = [word for option, value in options.items() for word in (f"--{option.replace('_', '-')}", value)]
            process = OwnProcess(url, "--name", name, *words, port=port)
            ended.callback(end, process)
            return process

        yield started
    postgres.give_back(url)


@pytest.fixture(scope="module")
def one(start: Start) -> OwnProcess:
    process = start("one")
    for stream in STREAMS:
        done(process, "PUT", f"/v1/streams/{stream}", STREAM)
    return process


@pytest.fixture(scope="module")
def two(start: Start, one: OwnProcess) -> OwnProcess:
    return start("two", client_address="http://two.example:8433")


def listed(process: OwnProcess) -> dict[str, Any]:
    answer = process.client.get("/v1/controllers")
    assert answer.status_code == 200, answer.text
    return {each["name"]: each for each in answer.json()["controllers"]}


def all_shards_are_served(answer: httpx.Response) -> bool:
    return bool(sum(each["shards"] for each in answer.json()["controllers"]) == SHARDS)


def test_each_controller_lists_all_with_their_shards(one: OwnProcess, two: OwnProcess) -> None:
    until(lambda: two.client.get("/v1/controllers"), lambda _: listed(two)["two"]["shards"] > 0)
    for process, name in ((one, "one"), (two, "two")):
        answer = until(partial(process.client.get, "/v1/controllers"), all_shards_are_served)
        assert answer.json()["asked"] == name
        found = listed(process)
        assert {each["state"] for each in found.values()} == {"live"}
        assert found["one"]["address"] == one.url and found["one"]["client_address"] is None
        assert found["two"]["client_address"] == "http://two.example:8433"
        assert found["one"]["since"] <= found["two"]["since"]
        assert all(0 <= each["beat_age_ms"] < 60_000 for each in found.values())


def test_the_command_shows_a_line_for_each(
    one: OwnProcess, two: OwnProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["controllers", "--controller", one.url]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["CONTROLLER", "STATE", "SINCE", "SHARDS"]
    assert [line.split()[:2] for line in lines] == [["one", "live"], ["two", "live"]]
    assert main(["controllers", "--controller", two.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["asked"] == "two"


def test_each_controller_has_the_metrics_of_several(one: OwnProcess, two: OwnProcess) -> None:
    for stream in STREAMS:
        for process in (one, two):
            done(process, "GET", f"/v1/streams/{stream}")
    scrapes = [read(process.client.get("/metrics").text) for process in (one, two)]
    for family in AMONG_OTHERS:
        assert all(scrape.labels[family.name] == {*family.labels} for scrape in scrapes), family.name
    for scrape in scrapes:
        assert scrape.value("controllers") == 2 and scrape.value("controller_leases_lost_total") == 0
        assert 0 <= scrape.value("controller_lease_age_seconds") < LEASE_MS / 1000
    assert scrapes[0].value("controller_shards_released_total") > 0
    passed = [scrape.value("controller_calls_passed_on_total", outcome="answered") for scrape in scrapes]
    assert sum(passed) >= len(STREAMS)


def test_an_unknown_name_is_answered_with_those_that_there_are(one: OwnProcess, two: OwnProcess) -> None:
    answer = one.client.post("/v1/controllers/three/drain")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_controller")
    assert answer.json()["controllers"] == ["one", "two"] and listed(two)["two"]["state"] == "live"


def test_a_drained_controller_is_not_ready_hands_over_and_ends_with_0(one: OwnProcess, two: OwnProcess) -> None:
    answer = one.client.post("/v1/controllers/two/drain")
    assert answer.status_code == 202 and listed(two)["two"]["state"] == "draining"
    ready = two.client.get("/readyz")
    assert ready.status_code == 503 and "is draining" in ready.json()["detail"]
    assert two.client.get("/healthz").status_code == 200
    assert two.client.post("/v1/controllers/two/drain").status_code == 202  # it has begun already
    assert two.process.wait(PATIENCE_S) == 0
    assert two.stop() == 0 and two.errors == ""
    for event in ("shards_taken", "drain_asked", "draining", "shards_released", "drained"):
        assert f" INFO {event}" in two.log
    assert listed(one)["two"]["state"] == "ended" and listed(one)["one"]["shards"] == SHARDS
    scrape = read(one.client.get("/metrics").text)
    assert scrape.value("controllers") == 1
    assert scrape.value("controller_others_ended_total") == 0  # else StrandlineControllerMissing would fire
    for stream in STREAMS:
        done(one, "GET", f"/v1/streams/{stream}")


def test_the_command_waits_until_the_controller_is_gone(
    start: Start, one: OwnProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    three = start("three")
    until(lambda: one.client.get("/v1/controllers"), lambda _: "three" in listed(one))
    assert main(["drain", "three", "--yes", "--controller", three.url]) == 0
    assert "three has ended, after" in capsys.readouterr().out
    assert three.process.wait(PATIENCE_S) == 0


def test_the_last_controller_is_drained_only_when_forced(one: OwnProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drain", "one", "--yes", "--controller", one.url]) == 1
    assert "is the last one that serves the store" in capsys.readouterr().err
    assert one.client.get("/readyz").status_code == 200
    assert main(["drain", "one", "--yes", "--force", "--json", "--controller", one.url]) == 0
    assert json.loads(capsys.readouterr().out)["drained"] == "one"
    assert one.process.wait(PATIENCE_S) == 0
    assert one.stop() == 0 and one.errors == ""


def test_a_controller_alone_lists_itself_and_is_not_drained(tmp_path: Path) -> None:
    with InProcess(tmp_path / "store.db") as controller:
        (alone,) = controller.call("GET", "/v1/controllers")["controllers"]
        assert (alone["name"], alone["shards"], alone["state"]) == (None, None, "live")
        refused = controller.call("POST", "/v1/controllers/one/drain", expect=409)
        assert refused["code"] == "serves_alone"
