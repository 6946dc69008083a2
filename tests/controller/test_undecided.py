"""What a caller is told of a commit is true: it was done, it was not, or that is not known.

Real sessions of PostgreSQL are ended in the middle of a commit, and a commit's wait for a standby is cancelled.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import pytest

from controller.cli import main
from controller.commit.store import after_commit
from strandline.errors import StoreUndecided, StreamLoading
from tests.postgres import Postgres

CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
DEADLINE_S = 60
OURS = "datname = current_database() AND application_name = 'strandline'"
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
CANCEL_WAITING = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
GAVE_UP = "canceling wait for synchronous replication"
BLOCKED = f"SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND {OURS}"


class Change(NamedTuple):
    """A call that changes something, and a query that finds a row once it was done."""

    method: str
    path: str
    body: Any
    done: str


CHANGES = {
    "note": Change(
        "POST",
        "/v1/streams/s/notes",
        {"writer": "a", "time": 200, "position": {"0": 200}},
        "SELECT 1 FROM mark WHERE time = 200",
    ),
    "stream": Change("PUT", "/v1/streams/t", CONFIG, "SELECT 1 FROM stream WHERE name = 't'"),
    "deletion": Change(
        "DELETE", "/v1/streams/s", None, "SELECT 1 WHERE NOT EXISTS (SELECT FROM stream WHERE name = 's')"
    ),
    "registration": Change("PUT", "/v1/streams/s/writers/b", None, "SELECT 1 FROM writer_change WHERE seq = 2"),
    "group": Change("PUT", "/v1/reader-groups/h", {"streams": ["s"]}, "SELECT 1 FROM reader_group WHERE name = 'h'"),
    "reader": Change(
        "PUT",
        "/v1/reader-groups/g/readers/r",
        {"positions": {"s": {"0": 7}}},
        'SELECT 1 FROM reader_position WHERE "offset" = 7',
    ),
    "group-deletion": Change(
        "DELETE", "/v1/reader-groups/g", None, "SELECT 1 WHERE NOT EXISTS (SELECT FROM reader_group WHERE name = 'g')"
    ),
}


@pytest.fixture(params=list(CHANGES))
def change(request: pytest.FixtureRequest) -> Change:
    return CHANGES[request.param]


def begin(controller: Any) -> None:
    """A stream with a mark, and a group that reads it."""
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.note("a", 100, {"0": 100})
    controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})


def soon(controller: Any, change: Change) -> Future[httpx.Response]:
    more = {} if change.body is None else {"json": change.body}
    answer: Future[httpx.Response] = controller.request_soon(change.method, change.path, **more)
    return answer


def until(found: Callable[[], Any]) -> Any:
    """What is found, once it is."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if rows := found():
            return rows
    raise AssertionError("it did not come in time")


class TestEnded:
    """A session that PostgreSQL ends while it commits."""

    @pytest.fixture
    def database(self, postgres_url: str) -> str:
        return postgres_url

    def test_a_groups_window_waits_for_the_positions_that_it_is_made_of(
        self, controller: Any, postgres: Postgres, postgres_url: str
    ) -> None:
        #   another    no writes to positions ───────────────────────────► released
        #   a reader        reports 7, whose commit waits ─────────────────────────► done
        #   whoever asks         for the group's window ───────────────────────────► 7
        import psycopg

        begin(controller)
        while True:
            with psycopg.connect(postgres_url) as another:
                another.execute("LOCK TABLE reader_position IN EXCLUSIVE MODE")
                report = soon(controller, CHANGES["reader"])
                until(lambda: postgres.execute(BLOCKED, postgres_url))
                window = controller.request_soon("GET", "/v1/reader-groups/g/time-window")
                for _ in range(2):  # calls that are answered after it would have been
                    assert controller.request("GET", "/v1/streams/s/marks").is_success
                was_early = window.done()
                another.rollback()
            if report.result(DEADLINE_S).status_code != 503:  # else it has waited for the lock too long
                break

        assert report.result().is_success, report.result().text
        assert not was_early
        assert window.result(DEADLINE_S).json()["streams"]["s"]["position"] == {"0": 7}

    def test_a_session_that_ends_before_its_commit_has_changed_nothing_and_is_replaced(
        self, controller: Any, postgres: Postgres, postgres_url: str
    ) -> None:
        #   another   the same row, not committed ───────────────────────────► rolled back
        #   ours            waits for it ──► ended: nothing was changed       tries again ──► done
        import psycopg

        begin(controller)
        with psycopg.connect(postgres_url) as another:
            another.execute(
                "INSERT INTO stream "
                "(name, open, config, original, sealed, epochs, head, created_at, remainders, passed) "
                "VALUES ('t', true, '', '', false, 0, '', 0, '', '')"
            )
            answer = soon(controller, CHANGES["stream"])
            ((first,),) = until(lambda: postgres.execute(BLOCKED, postgres_url))
            postgres.execute(f"SELECT pg_terminate_backend({first})")
            refused = answer.result(DEADLINE_S)
            assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
            another.rollback()

        assert soon(controller, CHANGES["stream"]).result(DEADLINE_S).status_code == 201


@pytest.fixture(scope="module")
def server(new_postgres: Callable[..., Postgres]) -> Iterator[Postgres]:
    """A server whose settings may change."""
    server = new_postgres("fsync=off")
    yield server
    server.stop(signal.SIGQUIT)


class TestStandby:
    """Commits that wait for a standby which is not there."""

    @pytest.fixture
    def database(self, server: Postgres) -> str:
        return server.new_database()

    @pytest.mark.parametrize("how", ["pg_cancel_backend", pytest.param("pg_terminate_backend", marks=pytest.mark.full)])
    def test_a_commit_without_its_standby_is_unknown_until_it_answers(
        self, controller: Any, server: Postgres, database: str, change: Change, how: str
    ) -> None:
        begin(controller)
        with a_standby_missing(server):
            answer = soon(controller, change)
            ((pid,),) = until(lambda: server.execute(WAITING))

            server.execute(f"SELECT {how}({pid})")

            problem = answer.result(DEADLINE_S)
            assert (problem.status_code, problem.json()["code"]) == (504, "store_undecided"), problem.text
            assert "nothing was changed" not in problem.json()["detail"]
            assert server.execute(change.done, database)  # here, and nowhere else
            read = controller.request_soon("GET", "/v1/streams")
            until(lambda: server.execute(WAITING))  # nobody is shown what may be lost with this server
            assert not read.done()

        assert read.result(DEADLINE_S).is_success
        again = soon(controller, change).result(DEADLINE_S)
        assert again.is_success or again.status_code == 404, again.text  # memory has what the store has

    def test_a_read_that_cannot_wait_for_an_earlier_commit_says_nothing_of_a_commit_of_its_own(
        self, controller: Any, server: Postgres
    ) -> None:
        begin(controller)
        with a_standby_missing(server):
            answer = soon(controller, CHANGES["note"])
            until(lambda: server.execute(CANCEL_WAITING))
            assert answer.result(DEADLINE_S).status_code == 504
            read = controller.request_soon("GET", "/v1/streams")
            until(lambda: server.execute(CANCEL_WAITING) and read.done())

            problem = read.result()

        assert (problem.status_code, problem.json()["code"]) == (503, "store_unavailable"), problem.text
        assert problem.json()["reason"].startswith(GAVE_UP)

    def test_a_token_is_not_printed_where_it_may_be_lost(
        self, server: Postgres, database: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["migrate", "--database", database]) == 0
        with a_standby_missing(server), ThreadPoolExecutor(1) as thread:
            made = thread.submit(main, ["token", "create", "a", "--role", "admin", "--database", database])
            ((pid,),) = until(lambda: server.execute(WAITING))
            server.execute(f"SELECT pg_cancel_backend({pid})")

            assert made.result(DEADLINE_S) == 1
        said = capsys.readouterr()
        assert "is not known" in said.err and GAVE_UP in said.err
        assert said.out.count("\n") == 1  # of `migrate`

    def test_nobody_begins_to_serve_whose_first_commit_may_be_lost(
        self, server: Postgres, database: str, serve_on: Any
    ) -> None:
        assert main(["migrate", "--database", database]) == 0
        with a_standby_missing(server), ThreadPoolExecutor(1) as thread:
            started = thread.submit(serve_on, database)
            ((pid,),) = until(lambda: server.execute(WAITING))
            server.execute(f"SELECT pg_cancel_backend({pid})")

            with pytest.raises(AssertionError, match=GAVE_UP):
                started.result(DEADLINE_S)


@contextmanager
def a_standby_missing(server: Postgres) -> Iterator[None]:
    """Meanwhile commits wait for a standby that is not there."""
    server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    server.execute("SELECT pg_reload_conf()")
    try:
        with ThreadPoolExecutor(1) as thread:
            while not _makes_wait(server, thread):
                pass  # the server takes a moment to heed it
        yield
    finally:
        server.execute("ALTER SYSTEM RESET synchronous_standby_names")
        server.execute("SELECT pg_reload_conf()")


def _makes_wait(server: Postgres, thread: ThreadPoolExecutor) -> bool:
    """Whether a commit had to wait."""
    probe = thread.submit(server.execute, "SELECT pg_logical_emit_message(true, 'probe', '')")
    waiting = until(lambda: server.execute(WAITING) or (probe.done() and [()]))
    for (pid,) in filter(None, waiting):
        server.execute(f"SELECT pg_cancel_backend({pid})")
    probe.result(DEADLINE_S)
    return any(waiting)


def test_what_is_stored_is_not_refused_because_its_stream_is_loading_again() -> None:
    with pytest.raises(StoreUndecided, match=r"it is stored, .* still being loaded"), after_commit():
        raise StreamLoading(stream="s")
