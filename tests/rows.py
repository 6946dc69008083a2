"""Rows of a store that tests change by hand: with their checksums, as if it had been written so, or without."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table, select, update

from controller.storage.checksums import CHECKSUMS


def rewrite(connection: Connection, table: Table, **values: Any) -> None:
    """Gives all rows of a table these values, and the checksums that go with them."""
    keys = list(table.primary_key)
    for row in connection.execute(select(table)).all():
        changed = row._asdict() | values
        changed["checksum"] = CHECKSUMS[table].of(changed)
        of_row = [key == row._mapping[key] for key in keys]
        connection.execute(update(table).where(*of_row).values(changed))
