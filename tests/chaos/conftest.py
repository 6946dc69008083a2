"""What runs of the harness share: the launcher of controllers, and a PostgreSQL that they may kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.chaos.processes import Launcher
from tests.postgres import Postgres


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    with Launcher() as launcher:
        yield launcher


@pytest.fixture(scope="session")
def mortal_postgres(new_postgres: Callable[..., Postgres]) -> Postgres:
    """A PostgreSQL that is killed, and started again."""
    return new_postgres("fsync=off", "max_connections=50", "autovacuum=off")
