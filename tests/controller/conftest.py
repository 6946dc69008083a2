"""Controllers for the tests here: in this process with a clock that only tests move, or in one of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

from controller.limits import DEFAULT_LIMITS, Limits
from tests.served import InProcess, ManualClock, OwnProcess, Shared, TwoControllers


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """The test's store, one of each kind where the test or its module uses `store_url` or `both_stores`."""
    for each_kind in ("store_url", "both_stores"):
        if each_kind in request.fixturenames:
            url: str = request.getfixturevalue(each_kind)
            return url
    return tmp_path / "store.db"


@pytest.fixture
def elsewhere(database: Path | str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Where another store of the same kind can be made."""
    if str(database).startswith("postgresql"):
        url: str = request.getfixturevalue("postgres").new_database()
        return url
    return f"sqlite:///{tmp_path / 'elsewhere.db'}"


@pytest.fixture
def beside(database: Path | str) -> Callable[..., None]:
    """Runs statements in the test's store, behind the controller's back."""

    def execute(*statements: str) -> None:
        url = make_url(database if isinstance(database, str) else f"sqlite:///{database}")
        kind = url.get_backend_name()
        engine = create_engine(url if kind == "sqlite" else url.set(drivername="postgresql+psycopg"))
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))
        engine.dispose()

    return execute


ON_TWO = ("test_streams", "test_notes", "test_marks", "test_journal", "test_groups")  # what runs on two controllers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two controllers serve PostgreSQL: what runs on them does not run on one there as well."""

    def fits(item: pytest.Item) -> bool:
        on_two = item.path.stem in ON_TWO and item.get_closest_marker("one_controller") is None
        if "[two controllers" in item.name:
            return on_two
        return not (on_two and "[postgresql" in item.name and item.get_closest_marker("full"))

    items[:] = [item for item in items if fits(item)]


TWO = pytest.param("two controllers", marks=pytest.mark.full)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full), TWO])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store of each kind, and one that two controllers serve: each call goes to the other one."""
    return _store(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgresql", TWO])
def both_stores(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same, on PostgreSQL in every run."""
    return _store(request, tmp_path)


def _store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    url: str = request.getfixturevalue("postgres_url")
    if request.param == "postgresql":
        return url
    return Shared(url)


@pytest.fixture
def start(database: Path | str, clock: ManualClock) -> Iterator[Callable[..., InProcess]]:
    """Starts a controller on the test's store; the one before, if any, is stopped in order, for a time if asked to."""
    started: list[InProcess] = []

    def begin(*, after_ms: int = 0, limits: Limits = DEFAULT_LIMITS) -> InProcess:
        while started:
            started.pop().__exit__(None, None, None)
        clock.now += after_ms
        kind = TwoControllers if isinstance(database, Shared) else InProcess
        started.append(kind(database, clock, limits=limits).__enter__())
        return started[-1]

    yield begin
    while started:
        started.pop().__exit__(None, None, None)


@pytest.fixture
def controller(start: Callable[..., InProcess]) -> InProcess:
    return start()


@pytest.fixture(scope="session")
def in_process() -> Callable[..., InProcess]:
    """Makes a controller on a store of its own, for tests that share one."""
    return lambda database: InProcess(database, ManualClock())


@pytest.fixture
def serve_on() -> Iterator[Callable[..., OwnProcess]]:
    """Starts a controller in a process of its own on any store."""
    started: list[OwnProcess] = []

    def begin(store: Path | str, *options: str, **more: Any) -> OwnProcess:
        started.append(OwnProcess(store, *options, **more))
        return started[-1]

    yield begin
    for each in started:
        if each.process.poll() is None:
            each.kill()


@pytest.fixture
def serve(database: Path | str, serve_on: Callable[..., OwnProcess]) -> Callable[..., OwnProcess]:
    """Starts a controller in a process of its own on the test's store."""
    return partial(serve_on, database)
