"""PostgreSQL as a store: one controller for a database, held by a lock of the session that writes."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.pool import NullPool

from controller.limits import CONNECT_TIMEOUT_S, LOST_PEER_S, STATEMENT_TIMEOUT_MS, TAKE_OVER_WAIT_MS
from controller.storage.refusals import AlreadyServed, DriverMissing
from strandline.redaction import redact

LOCK: Final = int.from_bytes(b"strand")  # the advisory lock of whoever serves a database
NOT_IN_TIME: Final = "55P03"  # lock_not_available


def reading_engine(url: URL, *, statement_timeout_ms: int = STATEMENT_TIMEOUT_MS) -> Engine:
    """An engine whose transactions only read, each of them the store as it was at one moment."""
    engine = _engine(url, isolation_level="REPEATABLE READ", statement_timeout_ms=statement_timeout_ms)
    return engine.execution_options(postgresql_readonly=True)


def writing_engine(url: URL, *, statement_timeout_ms: int = STATEMENT_TIMEOUT_MS) -> Engine:
    """An engine whose connections hold the lock of the controller; raises AlreadyServed where another one has it.

    The lock is given back when the session is over for the server, and not before. So a connection that comes after
    one that was lost finds everything that the lost one did, a last COMMIT without an answer included.
    """
    store = redact(url.render_as_string(hide_password=True))

    def take_lock(connection: Any, _record: Any) -> None:  # psycopg's, which may not be installed
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET lock_timeout = {TAKE_OVER_WAIT_MS}")
                cursor.execute(f"SELECT pg_advisory_lock({LOCK})")
                cursor.execute("RESET lock_timeout")
                # A database may be set to answer before a commit is durable. We are not.
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

    # Fences are compared by statements that each see what was committed before them: not at a higher level.
    engine = _engine(url, isolation_level="READ COMMITTED", statement_timeout_ms=statement_timeout_ms)
    event.listen(engine, "connect", take_lock)
    return engine


def sharing_engine(url: URL) -> Engine:
    """An engine for who changes something beside the controller that serves: it takes no lock of a controller's."""
    return _engine(url, isolation_level="READ COMMITTED")


def _engine(url: URL, *, isolation_level: Any, statement_timeout_ms: int = STATEMENT_TIMEOUT_MS) -> Engine:
    settings = {
        "statement_timeout": statement_timeout_ms,
        "tcp_keepalives_idle": LOST_PEER_S // 2,  # the server's side: it lets go of a controller that vanished
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
            },
        )
    except (ImportError, NoSuchModuleError):
        raise DriverMissing("psycopg", "postgres") from None
