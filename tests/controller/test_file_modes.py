"""Files with a store in them are for their owner alone, whatever the umask lets others do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli import main


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """What most systems have: others may read new files."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "of-somebody-else").touch()
    tmp_path.chmod(0o755)
    return tmp_path


def modes(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}


def test_a_store_and_what_sqlite_puts_beside_it(folder: Path, serve_on: Any) -> None:
    server = serve_on(folder / "store.db")
    assert server.client.put("/v1/streams/s", json={"segments": 1}).is_success

    names = ("store.db", "store.db-wal", "store.db-shm", "store.db.lock")
    assert modes(folder) == {**dict.fromkeys(names, 0o600), "of-somebody-else": 0o644}
    assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("words", [["migrate"], ["token", "create", "a", "--role", "admin"]])
def test_a_store_that_a_command_makes(folder: Path, words: list[str]) -> None:
    assert main([*words, "--database", str(folder / "store.db")]) == 0
    assert modes(folder)["store.db"] == 0o600


@pytest.mark.usefixtures("store_url")
def test_a_backup_and_what_is_restored_from_it(folder: Path, database: str, elsewhere: str) -> None:
    assert main(["migrate", "--database", database]) == 0
    assert main(["backup", str(folder / "backup"), "--database", database]) == 0
    assert main(["restore", str(folder / "backup"), "--database", elsewhere]) == 0

    assert {name: mode for name, mode in modes(folder).items() if mode != 0o600} == {"of-somebody-else": 0o644}
