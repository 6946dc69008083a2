"""PostgreSQL as a store, for any number of controllers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Select,
    String,
    Table,
    any_,
    bindparam,
    cast,
    create_engine,
    event,
    extract,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.engine import Compiled, ExceptionContext
from sqlalchemy.exc import DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from controller.storage import schema
from controller.storage.diagnosis import Cause, Diagnosis, diagnose
from controller.storage.refusals import (
    DriverMissing,
    InTheWay,
    ProgramFailed,
    ProgramMissing,
    StoreAway,
    StoreRefused,
    WrongSchema,
    shown,
)
from controller.storage.rows import AnyRow, Columns, Query, to_json
from controller.storage.session import Engines, Sessions, sessions_of
from strandline.redaction import redact

DRIVER: Final = "postgresql+psycopg"
CONNECT_TIMEOUT_S: Final = 5  # PostgreSQL: how long connecting may take
LOCK_WAIT_MS: Final = 1_000  # PostgreSQL: the wait for a lock, until stopped sessions are ended that may have it
STATEMENT_TIMEOUT_MS: Final = 30_000  # PostgreSQL: how long a statement may take
IDLE_COMMIT_MS: Final = 2_000  # PostgreSQL: from a lock to its rows; past it the server ends the session
VANISHED_CLIENT_MS: Final = 500  # PostgreSQL: how often the server looks whether who sent a statement is still there
# PostgreSQL plans for a hundred rows wherever it is given a JSON document. With the statistics of thousands of marks it
# would rather read all of them than look up those few, while others wait for locks; or it compiles the plan, for longer
# than that takes. These sessions look up by keys.
BY_KEYS: Final = dict.fromkeys(("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"), "off")
LOST_PEER_S: Final = 20  # without a sign of life on a connection, after which either side counts it as lost

STORE_NOW: Final = cast(func.floor(extract("epoch", func.clock_timestamp()) * 1000), BigInteger)  # the server's clock
RESERVED: Final = 2  # of advisory locks: the namespace of names under which something is created

# By SQLSTATE, or by its first characters, the class.
_DIAGNOSES: Final[Mapping[str, Diagnosis]] = {
    "53100": Diagnosis(Cause.FULL, "the disk of the database server is full"),
    "58030": Diagnosis(Cause.DISK, "the disk of the database server failed to read or write"),
    "25006": Diagnosis(Cause.READ_ONLY, "the database takes no writes: the server is a standby, or set to read-only"),
    "55P03": Diagnosis(Cause.LOCKED, "another session has locked the rows to be written"),
    "25P03": Diagnosis(Cause.SILENT, "the database server ended the session: this controller did nothing for too long"),
    "57014": Diagnosis(Cause.SILENT, "the database server cancelled a statement that took too long"),
    "57P03": Diagnosis(Cause.AWAY, "the database server is starting or shutting down"),
    "57P": Diagnosis(Cause.AWAY, "the database server ended the session"),
    "XX001": Diagnosis(Cause.DAMAGED, "the database is damaged: restore a backup"),
    "XX002": Diagnosis(Cause.DAMAGED, "an index of the database is damaged: reindex it, or restore a backup"),
    "53": Diagnosis(Cause.REFUSED, "the database server has no room for a session or a statement"),
    "28": Diagnosis(Cause.REFUSED, "the database server does not accept the user or the password"),
    "3D": Diagnosis(Cause.REFUSED, "the database server has no such database"),
    "42501": Diagnosis(Cause.REFUSED, "the user lacks a privilege in the database"),
    "08": Diagnosis(Cause.AWAY, "the connection to the database server was lost"),
}
_CONNECTION: Final = Diagnosis(Cause.AWAY, "the database server cannot be reached, or the connection to it was lost")


def reading_engine(url: URL) -> Engine:
    """An engine for read-only transactions, each on one snapshot of the store."""
    return _reading_engine(url, {"statement_timeout": STATEMENT_TIMEOUT_MS, **BY_KEYS})


def inspecting_engine(url: URL) -> Engine:
    """The same for one who reads everything, which may take long."""
    return _reading_engine(url, {"statement_timeout": 0})


def _reading_engine(url: URL, settings: Mapping[str, object]) -> Engine:
    return _engine(url, "REPEATABLE READ", settings).execution_options(postgresql_readonly=True)


def writing_engine(url: URL, *, statement_timeout_ms: int = STATEMENT_TIMEOUT_MS) -> Engine:
    """An engine for the session that writes.

    Its locks are those of rows. The server ends them with the session, not before: so whoever has such a lock sees
    everything that the session before did, including a last COMMIT without an answer.
    """
    settings = {
        "idle_in_transaction_session_timeout": IDLE_COMMIT_MS,
        "lock_timeout": LOCK_WAIT_MS,
        "client_connection_check_interval": VANISHED_CLIENT_MS,
    }

    def prepare(connection: Any, _record: Any) -> None:  # a connection of psycopg, which may not be installed
        with connection.cursor() as cursor:
            # A database may be set to answer before a commit is durable, here and on the standbys that it waits for:
            # never for this session.
            cursor.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"
            )
            for name, value in settings.items():  # of those that the server has
                chosen = "SELECT set_config(name, %s, false) FROM pg_settings WHERE name = %s"
                cursor.execute(chosen, [str(value), name])
        connection.commit()

    # What has waited for a lock must see what was committed meanwhile, so no higher isolation level will do.
    engine = _engine(url, "READ COMMITTED", {"statement_timeout": statement_timeout_ms, **BY_KEYS})
    event.listen(engine, "connect", prepare)
    return engine


def sharing_engine(url: URL) -> Engine:
    """An engine for commands that write while controllers serve."""
    return _engine(url, "READ COMMITTED", {"statement_timeout": STATEMENT_TIMEOUT_MS})


def _engine(url: URL, isolation_level: Any, settings: Mapping[str, object]) -> Engine:
    settings = {
        **settings,
        "tcp_keepalives_idle": LOST_PEER_S // 2,  # on the server: it ends the session of a controller that vanished
        "tcp_keepalives_interval": LOST_PEER_S // 4,
        "tcp_keepalives_count": 2,
        "tcp_user_timeout": LOST_PEER_S * 1000,
    }
    prepared = str(url.query.get("prepare_threshold", ""))
    try:
        engine = create_engine(
            url.set(drivername=DRIVER).difference_update_query(["prepare_threshold"]),
            poolclass=NullPool,
            isolation_level=isolation_level,
            connect_args={
                # For a pooler that gives transactions to sessions: `?prepare_threshold=none`.
                **({"prepare_threshold": int(prepared) if prepared.isdigit() else None} if prepared else {}),
                "application_name": "strandline",
                "connect_timeout": CONNECT_TIMEOUT_S,
                "keepalives_idle": LOST_PEER_S // 2,
                "keepalives_interval": LOST_PEER_S // 4,
                "keepalives_count": 2,
                "tcp_user_timeout": LOST_PEER_S * 1000,
                "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
            },
        )
    except (ImportError, NoSuchModuleError):
        raise DriverMissing(package="psycopg", extra="postgres") from None
    event.listen(engine, "handle_error", _give_up_unanswered)
    return engine


def _give_up_unanswered(failure: ExceptionContext) -> None:
    """Has a session made again whose statement will get no answer. The driver may find the socket dead and yet count
    the session as open; SQLAlchemy would keep it, and it takes no statement any more, not even ROLLBACK."""
    connection = failure.connection
    if connection is not None and not connection.invalidated:
        driver: Any = connection.connection.driver_connection
        failure.is_disconnect |= driver.info.transaction_status.name == "ACTIVE"


# Sessions of controllers that hold locks and do nothing: their processes are stopped, or very slow. One that stopped
# within a pipeline counts as active, and waits for its client; `idle_in_transaction_session_timeout` does not end it.
_END_STOPPED: Final = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
    "AND usename = current_user AND application_name = 'strandline' "
    "AND state IN ('idle in transaction', 'active') AND wait_event = 'ClientRead' "
    f"AND state_change < clock_timestamp() - interval '{LOCK_WAIT_MS} ms' AND pid <> pg_backend_pid()"
)


@cache  # building a statement costs more than running it
def _together(inserts: tuple[tuple[str, Insert], ...]) -> Insert:
    """Several inserts as one. Its constraints are checked at its end."""
    *others, (_, last) = inserts
    return last.add_cte(*(each.cte(name) for name, each in others))


@cache  # compiling a statement costs more than running it
def _compiled(statement: Select[Any]) -> Compiled:
    return statement.compile(dialect=URL.create(DRIVER).get_dialect()())


@contextmanager
def _pipeline(connection: Connection) -> Iterator[Any]:  # a connection of psycopg, which may not be installed
    """What is sent to the server meanwhile is answered on exit. Raises DBAPIError, as SQLAlchemy would."""
    driver: Any = connection.connection.driver_connection
    try:
        with driver.pipeline():
            yield driver
    except connection.dialect.loaded_dbapi.Error as error:
        lost = driver.closed or driver.info.transaction_status.name == "ACTIVE"
        if lost:
            connection.invalidate(error)
        raise DBAPIError(None, None, error, connection_invalidated=lost) from error


class PostgresqlStore:
    """PostgreSQL as a kind of store, see `StoreKind`."""

    name = "postgresql"
    serves_many = True

    def exists(self, url: URL) -> bool:
        return True  # which only connecting shows

    def serving(self, url: URL, opened: ExitStack, *, statement_timeout_ms: int | None = None) -> Engines:
        timeout_ms = STATEMENT_TIMEOUT_MS if statement_timeout_ms is None else statement_timeout_ms
        engines = writing_engine(url, statement_timeout_ms=timeout_ms), reading_engine(url), reading_engine(url)
        return Engines(*engines, Sessions(*sessions_of(engines, opened)))

    def beside(self, url: URL) -> Engine:
        return sharing_engine(url)

    def inspecting(self, url: URL) -> Engine:
        return inspecting_engine(url)

    def check(self, connection: Connection, url: URL) -> None:
        """Nothing stands in the way of serving it."""

    def file_check(self, _url: URL) -> Callable[[], None]:
        return lambda: None

    def refusal(self, url: URL, error: DBAPIError) -> StoreRefused:
        reason = redact((str(error.orig).strip().splitlines() or [type(error).__name__])[0])
        found = diagnose(error)
        return StoreAway(
            store=shown(url), reason=reason if found.cause in (Cause.AWAY, Cause.OTHER) else f"{found.reason}: {reason}"
        )

    def faults(self, connection: Connection) -> Iterator[tuple[str | None, str]]:
        return iter(())  # the server checks its own

    def insert(self, table: Table, name: str) -> Insert:
        """Inserts the rows of a JSON document at once: the driver takes longer for a row than the server."""
        document = func.json_to_recordset(cast(bindparam(name, type_=String), JSON))
        columns: list[Column[Any]] = [Column(each.name, each.type) for each in table.columns]
        given = document.table_valued(*columns).render_derived(name="given", with_types=True)
        return insert(table).from_select(table.columns.keys(), select(*given.c))

    def insert_all(self, connection: Connection, inserts: Sequence[tuple[str, Any, list[dict[str, Any]]]]) -> None:
        """In one statement: each takes a round trip to the server."""
        statement = _together(tuple((name, statement) for name, statement, _ in inserts))
        connection.execute(statement, {name: to_json(rows) for name, _, rows in inserts})

    def select_all(self, connection: Connection, queries: Sequence[Query]) -> list[Sequence[AnyRow]]:
        """In one round trip. SQLAlchemy waits for the rows of each statement, so the driver's cursors run them."""
        from psycopg.rows import namedtuple_row

        with _pipeline(connection) as driver:
            cursors = [driver.cursor(row_factory=namedtuple_row) for _ in queries]
            for cursor, (query, given) in zip(cursors, queries, strict=True):
                compiled = _compiled(query)
                cursor.execute(compiled.string, compiled.construct_params(given))
        return [cursor.fetchall() for cursor in cursors]

    @contextmanager
    def committing(self, connection: Connection) -> Iterator[None]:
        """In one round trip: the rows are locked until then. SQLAlchemy does not count the transaction as ended."""
        with _pipeline(connection) as driver:
            yield
            driver.execute("COMMIT", prepare=False)

    def left_undone(self, error: BaseException) -> bool:
        """If the error leaves the session open: with any other, the server may have committed before."""
        notice = getattr(error, "diag", None)  # of psycopg, which may not be installed
        return notice is not None and bool(notice.severity_nonlocalized == "ERROR")

    @contextmanager
    def warnings(self, connection: Connection) -> Iterator[list[str]]:
        """Collects the server's warnings meanwhile. It warns of a COMMIT that a standby may lack."""
        warnings: list[str] = []

        def collect(notice: Any) -> None:  # a notice of psycopg, which may not be installed
            if notice.severity_nonlocalized == "WARNING":
                warnings.append(str(notice.message_primary))

        driver: Any = connection.connection.driver_connection
        driver.add_notice_handler(collect)
        try:
            yield warnings
        finally:
            driver.remove_notice_handler(collect)

    now: ColumnElement[Any] = STORE_NOW

    def among(self, column: ColumnElement[str], name: str) -> ColumnElement[bool]:
        document = cast(bindparam(name, type_=String), JSON)
        texts = select(func.json_array_elements_text(document).table_valued("value").c.value)
        return column == any_(func.array(texts.scalar_subquery()))  # other than IN, an index serves it beside an OR

    def given(self, name: str, columns: Columns) -> Select[Any]:
        document = func.json_to_recordset(cast(bindparam(name, type_=String), JSON))
        named: list[Column[Any]] = [Column(each, kind) for each, kind in columns.items()]
        return select(document.table_valued(*named).render_derived(with_types=True))

    def reserve(self, connection: Connection, names: Sequence[str]) -> None:
        for name in sorted(names):
            connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(name), RESERVED)))

    def end_stopped(self, connection: Connection) -> None:
        connection.execute(_END_STOPPED)

    def back_up(self, url: URL, part: Path, file: Path) -> bool:
        """In pg_dump's custom format."""
        without = f"--exclude-table-data={schema.controller.name}"  # who serves the store that it is taken of
        _run("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", without, f"--file={part}")
        return False

    @contextmanager
    def restored(self, url: URL, file: Path | None) -> Iterator[Connection]:
        engine = writing_engine(url, statement_timeout_ms=0)
        try:
            with engine.connect() as connection:
                with connection.begin():
                    empty = not inspect(connection).get_table_names()
                if file is not None:
                    if not empty:
                        raise InTheWay(what=shown(url))
                    once = ("--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges")
                    _run("pg_restore", url, *once, str(file))
                elif empty:
                    raise WrongSchema(found=None, wanted=schema.REVISION)
                with connection.begin():
                    yield connection
        except DBAPIError as error:
            raise self.refusal(url, error) from error
        finally:
            engine.dispose()

    def diagnosis(self, error: BaseException) -> Diagnosis | None:
        if not hasattr(error, "sqlstate"):  # an error of psycopg, which may not be installed
            return None
        state = error.sqlstate
        if state is None and any(kind.__name__ == "OperationalError" for kind in type(error).__mro__):
            return _CONNECTION  # the server sent no error
        if state is None:
            return Diagnosis(Cause.OTHER, f"the store failed ({type(error).__name__})")
        for prefix in (state, state[:3], state[:2]):
            if prefix in _DIAGNOSES:
                return _DIAGNOSES[prefix]
        return Diagnosis(Cause.OTHER, f"the store refused a statement ({type(error).__name__}, {state})")


def _run(program: str, url: URL, *options: str) -> None:
    """Runs one of PostgreSQL's programs. The password goes by environment: other users can see command lines."""
    environment = dict(os.environ)
    if url.password is not None:
        environment["PGPASSWORD"] = str(url.password)
    dbname = url._replace(drivername="postgresql", password=None).render_as_string()
    try:
        done = subprocess.run(
            [program, f"--dbname={dbname}", *options],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise ProgramMissing(program=program, install="apt-get install -y postgresql-client") from None
    if done.returncode != 0:
        raise ProgramFailed(program=program, lines=done.stderr.strip().splitlines())
