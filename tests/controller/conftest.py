"""Controllers for the tests here: in this process with a clock that only tests move, or in one of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller.limits import DEFAULT_LIMITS, Limits
from tests.served import InProcess, ManualClock, OwnProcess
from tests.two_controllers import TwoStores


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def database(tmp_path: Path) -> Path | str:
    """The test's store. Modules whose tests run on each kind of store have a fixture of this name that says so."""
    return tmp_path / "store.db"


GROUP_STORES = ["sqlite", *(pytest.param(each, marks=pytest.mark.full) for each in ("postgresql", "two controllers"))]


@pytest.fixture(params=GROUP_STORES)
def group_store(request: pytest.FixtureRequest, tmp_path: Path) -> str | TwoStores:
    """A fresh store of each kind, and two stores whose controllers share the streams of a reader group."""
    if request.param == "two controllers":
        return TwoStores(tmp_path)
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def start(database: Path | str | TwoStores, clock: ManualClock) -> Iterator[Callable[..., InProcess]]:
    """Starts a controller on the test's store; the one before, if any, is stopped in order, for a time if asked to."""
    started: list[InProcess] = []

    def begin(*, after_ms: int = 0, limits: Limits = DEFAULT_LIMITS) -> InProcess:
        while started:
            started.pop().__exit__(None, None, None)
        clock.now += after_ms
        serving = (
            database.serve(clock) if isinstance(database, TwoStores) else InProcess(database, clock, limits=limits)
        )
        started.append(serving.__enter__())
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


@pytest.fixture(scope="session")
def own_process() -> Callable[..., AbstractContextManager[OwnProcess]]:
    """Starts a controller in a process of its own on a store of its own, for tests that share one."""

    @contextmanager
    def begin(database: Path, **more: Any) -> Iterator[OwnProcess]:
        started = OwnProcess(database, **more)
        try:
            yield started
        finally:
            started.kill()

    return begin


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
