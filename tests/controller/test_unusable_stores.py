"""A store that cannot be opened or written at the start: one sentence that names the file and what to do, status 1."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.disks import Disk, small_disk, without_privileges
from tests.served import ROOT, run_command

pytestmark = pytest.mark.full

STORE = ("serve", "migrate", "token")  # the commands that write to a store
COMMANDS = {
    "serve": ("serve", "--port", "0"),
    "migrate": ("migrate",),
    "token": ("token", "create", "t", "--role", "admin"),
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


def run(
    *arguments: str, before: Sequence[str] = (), preexec: Callable[[], None] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    if not before and preexec is None:
        return run_command(*arguments, folder=folder)
    command = [*before, sys.executable, "-m", "controller", *arguments]
    given = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, env=given, timeout=120, check=False, preexec_fn=preexec, cwd=folder
    )


def refused(command: str, store: Path, **more: Any) -> str:
    """What a command says of a store that it does not take."""
    ended = run(*COMMANDS[command], "--database", str(store), **more)
    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False), ended.stderr
    (said,) = [line for line in ended.stderr.splitlines() if line.startswith(f"strandline {command}: ")]
    assert str(store) in said
    return said


def make(store: Path) -> None:
    assert run("migrate", "--database", str(store)).returncode == 0


@pytest.mark.parametrize("command", STORE)
def test_a_full_disk_is_named_when_the_store_is_new(disk: Disk, command: str) -> None:
    disk.fill()

    assert "the disk" in refused(command, disk.folder / "store.db", preexec=disk.preexec)


def test_a_restore_onto_a_full_disk_does_not_blame_the_backup(tmp_path: Path, disk: Disk) -> None:
    store, file = tmp_path / "store.db", tmp_path / "backup"
    make(store)
    assert run("backup", str(file), "--database", str(store)).returncode == 0
    disk.fill()

    ended = run("restore", str(file), "--database", str(disk.folder / "new.db"), preexec=disk.preexec)

    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False)
    assert f"{disk.folder / 'new.db'} cannot be used: the disk" in ended.stderr


@pytest.mark.parametrize("command", STORE)
def test_a_read_only_disk_is_named(disk: Disk, command: str) -> None:
    fresh, there = disk.folder / "fresh.db", disk.folder / "there.db"
    make(there)
    with disk.read_only():
        refused(command, fresh, before=without_privileges())
        refused(command, there, before=without_privileges())


@pytest.mark.parametrize("command", STORE)
def test_an_unwritable_file_or_folder_is_named(tmp_path: Path, command: str) -> None:
    folder, closed = tmp_path / "folder", tmp_path / "closed"
    folder.mkdir()
    make(folder / "store.db")
    (folder / "store.db").chmod(0o444)
    closed.mkdir(0o500)

    if command != "migrate":  # which has nothing to write to a store that is at this version already
        assert "may not" in refused(command, folder / "store.db", before=without_privileges())
    refused(command, closed / "store.db", before=without_privileges())


@pytest.mark.parametrize("command", STORE)
def test_what_is_no_store_is_named_and_left_as_it_is(tmp_path: Path, command: str) -> None:
    folder, text, foreign, later = (tmp_path / name for name in ("folder", "text", "foreign", "later"))
    folder.mkdir()
    text.write_text("this is no database, but long enough to be one " * 100)
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE customers (name TEXT)")
        database.execute("CREATE TABLE alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES ('8f3a')")
    make(later)
    with sqlite3.connect(later) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")

    assert "a folder" in refused(command, folder)
    assert "not an SQLite database" in refused(command, text)
    assert "another application" in refused(command, foreign) and "customers" in refused(command, foreign)
    assert "schema is 9999" in run(*COMMANDS[command], "--database", str(later)).stderr
    with sqlite3.connect(foreign) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == {"customers", "alembic_version"}


@pytest.mark.parametrize("command", STORE)
def test_a_store_in_a_folder_that_is_not_there_is_refused_and_none_is_made(tmp_path: Path, command: str) -> None:
    assert "folder" in refused(command, tmp_path / "mistyped" / "store.db")
    assert list(tmp_path.iterdir()) == []
