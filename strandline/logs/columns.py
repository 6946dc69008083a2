"""The columns of the Arrow batches that every log returns. Needs pyarrow only when called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def event_schema() -> pa.Schema:
    """The columns of `read`: key, value, segment, offset, appended_at (a UTC timestamp in microseconds)."""
    import pyarrow as pa

    return pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("segment", pa.string()),
            ("offset", pa.int64()),
            ("appended_at", pa.timestamp("us", "UTC")),
        ]
    )
