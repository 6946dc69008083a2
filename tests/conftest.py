"""How the properties are run, and the stores and logs that tests run on.

HYPOTHESIS_PROFILE chooses one of the profiles below.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # it ships no types

from tests.java import spark_options
from tests.postgres import Postgres, programs
from tests.summary import pytest_terminal_summary as pytest_terminal_summary  # pytest finds its hooks here
from tests.summary import skip_but_under_ci
from tools.jars import JarsError, fetched
from tools.preflight import installing

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.kafka import Kafka

# The same examples each time, so that a failure is the fault of the change, and nothing is kept from an earlier run.
# Machines differ and are shared: an example that is slow once is no failure. pytest-timeout ends what hangs.
settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=30,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("full", settings.get_profile("default"), max_examples=100)
# Drawn at random: what it finds becomes an example in the test.
settings.register_profile("random", settings.get_profile("default"), derandomize=False, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# As the controller does, where Python would look for cycles after each 700 objects, and go through all of these tests.
gc.set_threshold(50_000, 20, 100)


def pytest_collection_finish() -> None:
    gc.freeze()


# A run that a script started in the background ignores Ctrl-C, and so would each process that tests send one to.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Without it Spark looks up the name of this machine, which may lead nowhere, as in a chroot.
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

# Of Spark's drivers, whoever starts them.
os.environ["SPARK_SUBMIT_OPTS"] = spark_options()


class _OneSpark(LoadFileScheduling):  # type: ignore[misc]  # it ships no types
    """A file goes to one process, and so do all files with the shared session of Spark: a second one takes 15 s."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/spark" if nodeid.startswith("tests/spark/") else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)  # unknown where xdist is switched off
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return _OneSpark(config, log) if config.getvalue("dist") == "loadfile" else None


# What takes long though it needs no Spark.
LONG = tuple(f"tests/{folder}/" for folder in ("chaos", "demo", "histories", "relay", "several"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take longest are begun first, else one process has them when the others have ended: those with Spark,
    then those of `LONG`."""
    longest = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: 0 if item.path in longest else 1 if item.nodeid.startswith(LONG) else 2)


@pytest.fixture(scope="session")
def new_postgres() -> Iterator[Callable[..., Postgres]]:
    """Starts a PostgreSQL, and removes it in the end. Skips where none is installed, and fails there under CI=true."""
    folder = programs()
    if folder is None:
        skip_but_under_ci("PostgreSQL's server is not installed", installing("postgresql"))
    started: list[Postgres] = []

    def start(*given: str, primary: Postgres | None = None) -> Postgres:
        started.append(Postgres(folder, *given, primary=primary))
        return started[-1]

    yield start
    for each in started:
        each.remove()


@pytest.fixture(scope="session")
def postgres(new_postgres: Callable[..., Postgres]) -> Postgres:
    """The PostgreSQL of this run of the tests. Nobody may stop it."""
    return new_postgres("fsync=off", "max_connections=50", "autovacuum=off")


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """A fresh database of PostgreSQL."""
    url = postgres.new_database()
    yield url
    postgres.give_back(url)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store of each kind: the test runs once on each, and `make test` has it on SQLite alone. Modules that run
    on both there have `both_stores`."""
    return _store_url(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgresql"])
def both_stores(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same, on both in every run."""
    return _store_url(request, tmp_path)


def _store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The folder with Kafka's jars. Skips where Maven Central cannot be had, and fails there under CI=true."""
    return _jars("kafka")


@pytest.fixture(scope="session")
def spark_kafka_jars() -> Path:
    """The folder with the jars of Spark's Kafka connector; skips and fails as `kafka_jars` does."""
    return _jars("spark-kafka")


def _jars(profile: str) -> Path:
    try:
        return fetched(profile)
    except JarsError as error:
        skip_but_under_ci(error.what, error.how)


@pytest.fixture(scope="session")
def new_kafka(kafka_jars: Path) -> Iterator[Callable[..., Kafka]]:
    """Starts a Kafka, and removes it in the end."""
    from tests.kafka import Kafka

    def start(count: int = 1, *, wired: bool = False, **settings: str) -> Kafka:
        started = Kafka(kafka_jars, count, wired=wired, **settings)
        atexit.register(started.remove)
        return started

    # Brokers end with the process, and nothing is said after that: clients that tests left open would complain of it.
    yield start
    atexit.register(_say_no_more)


def _say_no_more() -> None:
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())


@pytest.fixture(scope="session")
def kafka(new_kafka: Callable[..., Kafka]) -> Kafka:
    """The one broker of this run of the tests. Nobody may stop it."""
    return new_kafka()


# Not for the whole run: three brokers take some seven hundredths of a core while nobody asks them for anything.
@pytest.fixture(scope="module")
def three_brokers(new_kafka: Callable[..., Kafka]) -> Iterator[Kafka]:
    """Three brokers. Who kills one starts it again."""
    started = new_kafka(3)
    yield started
    started.remove()


PAGE_PATIENCE_MS = 60_000  # for what a page shows in a moment where the machine is not busy
# Nothing of a page may need more than the controller: the browser is kept from everything else.
# One name is pointed at this machine, as somebody does who wants to be taken for a page of the controller.
POINTED_HERE = "evil.example"
BROWSER_FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-features=LocalNetworkAccessChecks",  # a protection that not every browser has
    f"--host-resolver-rules=MAP {POINTED_HERE} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


# Not for the whole run: while Playwright is open no other test of this thread can run an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium. Skips where it is not installed, and fails there under CI=true."""
    program = shutil.which("chromium")
    if program is None:
        skip_but_under_ci("Chromium is not installed", installing("chromium"))
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PAGE_PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=BROWSER_FLAGS)
        yield browser
        browser.close()
