"""`strandline check`: what it says of a store, and what it exits with."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from controller.cli import main
from controller.storage.database import open_database
from tests.postgres import Postgres
from tests.served import InProcess, ManualClock

CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}


def fill(store: str, marks: int = 3) -> None:
    with InProcess(store, ManualClock()) as controller:
        for stream in ("s", "t"):
            controller.call("PUT", f"/v1/streams/{stream}", CONFIG)
            notes = [{"stream": stream, "writer": "a", "time": n, "position": {"0": n}} for n in range(1, marks + 1)]
            controller.call("POST", "/v1/notes", {"notes": notes})
        controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})


def change(path: Path | str, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "store.db")
    fill(path)
    return path


def test_of_a_sound_store_it_says_so_and_exits_with_0(store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(store_url)
    assert main(["check", "--database", store_url]) == 0
    assert "nothing is wrong (2 streams, 1 reader groups)" in capsys.readouterr().out


def test_it_looks_beside_a_running_controller(
    store_url: str, capsys: pytest.CaptureFixture[str], postgres: Postgres
) -> None:
    with InProcess(store_url, ManualClock()) as controller:
        controller.call("PUT", "/v1/streams/s", CONFIG)
        controller.note("a", 5, {"0": 5})
        assert main(["check", "--database", store_url]) == 0
        controller.note("a", 6, {"0": 6})
        statement = "UPDATE mark SET cut = '{' WHERE seq = 2"
        if store_url.startswith("sqlite"):
            change(store_url.removeprefix("sqlite:///"), statement)
        else:
            postgres.execute(statement, store_url)
        assert main(["check", "--database", store_url]) == 1
        controller.note("a", 7, {"0": 7})
    assert "stream s, table mark, row with stream 's', key '', seq 2: " in capsys.readouterr().out


def test_what_cannot_be_read_is_said_with_what_to_do(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    change(store, "UPDATE mark SET cut = '{' WHERE stream = 't' AND seq = 1")
    change(store, "UPDATE reader_group SET held = '{'")
    assert main(["check", "--database", store]) == 1
    first, second, remedy, summary = capsys.readouterr().out.splitlines()
    why = "it cannot be read: Input data was truncated"
    assert first == f"stream t, table mark, row with stream 't', key '', seq 1: {why}"
    assert second == f"reader group g, table reader_group, row with name 'g': {why}"
    assert remedy.startswith("Restore a backup") and ": 2 faults (2 streams, 1 reader groups)" in summary

    assert main(["check", "--database", store, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["streams"], told["faults"][0]["stream"], told["faults"][1]["detail"]) == (2, "t", second)


@pytest.mark.parametrize("what", ["none", "foreign", "older", "folder", "bad url", "no database"])
def test_what_cannot_be_looked_at_is_told_and_exits_with_2(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "store.db"
    match what:
        case "foreign":
            change(path, "CREATE TABLE mine (id INTEGER)")
        case "older":
            open_database(str(path)).close()
            change(path, "UPDATE alembic_version SET version_num = '0000'")
        case "folder":
            path.mkdir()
        case "no database":
            path.write_bytes(b"not a database" * 100)
    database = "mysql://localhost/x" if what == "bad url" else str(path)
    before = sorted(each.name for each in tmp_path.iterdir())

    assert main(["check", "--database", database]) == 2

    said = capsys.readouterr().err
    wanted = {"older": "strandline migrate", "foreign": "another application", "bad url": "is not a supported database"}
    assert said.startswith("strandline check: ") and wanted.get(what, "store.db") in said and "Traceback" not in said
    assert sorted(each.name for each in tmp_path.iterdir()) == before


@pytest.mark.parametrize("damage", [False, True])
def test_a_backup_is_checked_when_made_and_when_restored(
    store_url: str, damage: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], postgres: Postgres
) -> None:
    fill(store_url)
    statement = "UPDATE mark SET cut = '{' WHERE stream = 't' AND seq = 2"
    if damage and store_url.startswith("sqlite"):
        change(store_url.removeprefix("sqlite:///"), statement)
    elif damage:
        postgres.execute(statement, store_url)
    file = str(tmp_path / "store.backup")
    restored = str(tmp_path / "restored.db") if store_url.startswith("sqlite") else postgres.new_database()

    for command in (["backup", file, "--database", store_url], ["restore", file, "--database", restored]):
        assert main(command) == int(damage)
        assert ("seq 2: it cannot be read" in capsys.readouterr().err) == damage

    assert main(["check", "--database", restored]) == int(damage)
    if store_url.startswith("sqlite"):
        assert main(["check", "--database", file]) == int(damage)
