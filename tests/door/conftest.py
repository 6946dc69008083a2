"""Served controllers, which tests here talk to over real sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.served import OwnProcess


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnProcess]:
    """A controller without tokens, with a stream `s`, which the tests of a module share; its log has no fault."""
    process = OwnProcess(tmp_path_factory.mktemp("door") / "store.db")
    assert process.client.put("/v1/streams/s", json={"segments": 1, "max_ahead_ms": None}).is_success
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.log


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., OwnProcess]]:
    """Starts controllers on a store of the test."""
    started: list[OwnProcess] = []

    def begin(*options: str, database: str = "store.db", **more: Any) -> OwnProcess:
        started.append(OwnProcess(tmp_path / database, *options, **more))
        return started[-1]

    yield begin
    for each in started:
        if each.process.poll() is None:
            each.kill()
