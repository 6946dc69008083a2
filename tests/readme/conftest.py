"""A controller for the pages that take one for granted, empty for each of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.served import OwnProcess


@pytest.fixture(scope="package")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnProcess]:
    started = OwnProcess(tmp_path_factory.mktemp("pages") / "store.db")
    yield started
    started.stop()


@pytest.fixture
def controller(process: OwnProcess) -> str:
    """Where it is."""
    for group in process.client.get("/v1/reader-groups").json()["groups"]:
        process.client.delete(f"/v1/reader-groups/{group}").raise_for_status()
    for stream in process.client.get("/v1/streams").json()["streams"]:
        process.client.delete(f"/v1/streams/{stream}").raise_for_status()
    with closing(sqlite3.connect(process.database)) as store:  # else epochs go on from those of the page before
        store.execute("DELETE FROM deleted")
        store.commit()
    return process.url
