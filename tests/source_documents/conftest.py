"""The documents' scenarios run over HTTP on a real controller, once on each kind of store."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.served import InProcess, ManualClock
from tests.source_documents.stage import Stage

_numbers = itertools.count(1)


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def shared_controller(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    database: Path | str = tmp_path_factory.mktemp("documents") / "store.db"
    if request.param == "postgresql":
        database = request.getfixturevalue("postgres").new_database()
    with InProcess(database, ManualClock()) as controller:
        yield controller


@pytest.fixture
def stage(shared_controller: InProcess) -> Stage:
    """Names of the test's own, and the clock where the test before it has left it."""
    return Stage(shared_controller, str(next(_numbers)))
