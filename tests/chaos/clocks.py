"""Clocks that a fault sets: that of one controller's host, and that of the store."""

from __future__ import annotations

from pathlib import Path

from tests.postgres import Postgres

BYTES = 8

# Beside the store's own schema, where nobody looks for tables of Strandline.
STORE_CLOCK = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.clock (ahead interval NOT NULL);
INSERT INTO chaos.clock VALUES ('0');
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
AS 'SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM chaos.clock)';
"""


class SetClock:
    """By how much the wall clock of a controller's host is ahead, in a file that all its processes follow."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._ahead_ms = 0
        file.write_bytes(bytes(BYTES))

    def step(self, by_ms: int) -> None:
        self._ahead_ms += by_ms
        with self.file.open("r+b") as opened:  # in place: processes have the file mapped
            opened.write(self._ahead_ms.to_bytes(BYTES, "little", signed=True))


def make_clock(postgres: Postgres, database: str) -> None:
    """Gives sessions of a database that begin from now on a clock that can be set."""
    postgres.execute(STORE_CLOCK, database)
    postgres.execute(f"ALTER DATABASE {database.rpartition('/')[2]} SET search_path = public, pg_catalog")


def step_clock(postgres: Postgres, database: str, by_ms: int) -> None:
    postgres.execute(f"UPDATE chaos.clock SET ahead = ahead + interval '{by_ms} milliseconds'", database)
