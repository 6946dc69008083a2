"""The bounds of the tools, the unit last."""

from typing import Final

# Assessing delays
ASSESS_DELAYS: Final = "0,1s,2s,5s,10s,30s,1min,5min,1h"  # unless others are named
ASSESS_DELAYS_BOUND: Final = 50
ASSESS_DELAYS_BOUND_MS: Final = 366 * 86_400_000
ASSESS_NAMES: Final = 1_000  # partitions, and beginnings of keys, that are counted each by itself
ASSESS_ROWS_SHOWN: Final = 20  # of these; --json has all
ASSESS_PROGRESS_MS: Final = 3_000  # between two lines that say how far it is
ASSESS_UNREADABLE: Final = 1_000  # as many events without a time, to each one with a time, end it
ASSESS_PORTION_EVENTS: Final = 200_000  # of a log, in memory at once, over all segments
ASSESS_LEAST_PORTION_EVENTS: Final = 100  # of one segment
ASSESS_PARQUET_ROWS: Final = 10_000  # in memory at once
ASSESS_LINE_CHARACTERS: Final = 16 * 1024 * 1024  # of a line of JSON

# Auditing
AUDIT_NAMED: Final = 20  # late events that are named, unless --most says otherwise
AUDIT_NAMED_BOUND: Final = 10_000
AUDIT_PROGRESS_MS: Final = 3_000  # between two lines that say how far it is, and between two writings of --state
AUDIT_CHECK_EVENTS: Final = 1_000  # after so many it looks at the time
AUDIT_PAGE_OFFSETS: Final = 200_000  # of the cuts of marks, in one answer
AUDIT_PERIODS: Final = 200_000  # in which marks leave a writer out; of more, the oldest are dropped
AUDIT_WRITERS: Final = 1_000  # that are counted by name; of one segment, that could have written an event
AUDIT_WRITERS_TOLD: Final = 20  # for one event; beside it in the table, fewer
AUDIT_STATE_BYTES: Final = 64 * 1024 * 1024  # of the file that --state names
