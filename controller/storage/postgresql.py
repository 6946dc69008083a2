"""PostgreSQL as a store: one controller for a database, by an advisory lock of the writing session."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.pool import NullPool

from controller.limits import CONNECT_TIMEOUT_S, LOST_PEER_S, STATEMENT_TIMEOUT_MS, TAKE_OVER_WAIT_MS
from controller.storage.refusals import AlreadyServed, DriverMissing
from strandline.redaction import redact

LOCK: Final = int.from_bytes(b"strand")  # the key of the advisory lock
NOT_IN_TIME: Final = "55P03"  # lock_not_available


def reading_engine(url: URL, *, statement_timeout_ms: int = STATEMENT_TIMEOUT_MS) -> Engine:
    """An engine for read-only transactions, each on one snapshot of the store."""
    engine = _engine(url, isolation_level="REPEATABLE READ", statement_timeout_ms=statement_timeout_ms)
    return engine.execution_options(postgresql_readonly=True)


def writing_engine(url: URL, *, statement_timeout_ms: int = STATEMENT_TIMEOUT_MS) -> Engine:
    """An engine whose connections hold the controller's lock; connecting raises AlreadyServed if another one has it.

    The server releases the lock when it ends the session, not before. So a connection made after a lost one sees
    everything that the lost one did, including a last COMMIT without an answer.
    """
    store = redact(url.render_as_string(hide_password=True))

    def take_lock(connection: Any, _record: Any) -> None:  # a connection of psycopg, which may not be installed
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET lock_timeout = {TAKE_OVER_WAIT_MS}")
                cursor.execute(f"SELECT pg_advisory_lock({LOCK})")
                cursor.execute("RESET lock_timeout")
                # A database may be set to answer before a commit is durable: never for this session.
                cursor.execute(
                    "SELECT set_config('synchronous_commit', 'on', false) "
                    "WHERE current_setting('synchronous_commit') = 'off'"
                )
            connection.commit()
        except Exception as error:
            connection.close()
            if getattr(error, "sqlstate", None) == NOT_IN_TIME:
                raise AlreadyServed(store) from None
            raise

    # Statements that compare fences must see every earlier commit, so no higher isolation level will do.
    engine = _engine(url, isolation_level="READ COMMITTED", statement_timeout_ms=statement_timeout_ms, preparing=False)
    event.listen(engine, "connect", take_lock)
    return engine


def sharing_engine(url: URL) -> Engine:
    """An engine for commands that write while a controller serves: it does not take the controller's lock."""
    return _engine(url, isolation_level="READ COMMITTED")


def _engine(
    url: URL, *, isolation_level: Any, statement_timeout_ms: int = STATEMENT_TIMEOUT_MS, preparing: bool = True
) -> Engine:
    """`preparing`: psycopg prepares what it runs often. When a transaction is rolled back, it frees all statements that
    are prepared in the session, also those of a `Pipeline`: so a session that has one must not."""
    settings = {
        "statement_timeout": statement_timeout_ms,
        "tcp_keepalives_idle": LOST_PEER_S // 2,  # on the server: it ends the session of a controller that vanished
        "tcp_keepalives_interval": LOST_PEER_S // 4,
        "tcp_keepalives_count": 2,
        "tcp_user_timeout": LOST_PEER_S * 1000,
    }
    try:
        return create_engine(
            url.set(drivername="postgresql+psycopg"),
            poolclass=NullPool,
            isolation_level=isolation_level,
            connect_args={
                "application_name": "strandline",
                "connect_timeout": CONNECT_TIMEOUT_S,
                "keepalives_idle": LOST_PEER_S // 2,
                "keepalives_interval": LOST_PEER_S // 4,
                "keepalives_count": 2,
                "tcp_user_timeout": LOST_PEER_S * 1000,
                "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
                **({} if preparing else {"prepare_threshold": None}),
            },
        )
    except (ImportError, NoSuchModuleError):
        raise DriverMissing("psycopg", "postgres") from None
