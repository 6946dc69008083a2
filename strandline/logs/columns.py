"""The columns of the Arrow batches that every log returns. Needs pyarrow only when called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline.limits import TIME_BOUND_MS

if TYPE_CHECKING:
    import pyarrow as pa


def event_schema() -> pa.Schema:
    """The columns of `read`: key, value, segment, offset, appended_at (a UTC timestamp in microseconds, or null)."""
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


def append_times(times_ms: pa.Array) -> pa.Array:
    """The column appended_at of these milliseconds. Null for what is no time, such as a producer's nanoseconds: the
    event can be read all the same."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_time = pc.and_(pc.greater(times_ms, -TIME_BOUND_MS), pc.less(times_ms, TIME_BOUND_MS))
    times = pc.if_else(is_time, times_ms, pa.scalar(None, pa.int64()))
    return times.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
