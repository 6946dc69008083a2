"""The bounds of readers, the unit last. They add to `strandline.limits`."""

from typing import Final

# Marks that follow the stream
CACHED_MARKS_DEFAULT: Final = 100_000  # of one key; older positions are answered by a call
FOLLOWED_KEYS: Final = 16  # of one stream; windows of further keys are answered by a call
MARKS_PER_PAGE: Final = 1_000
FOLLOW_WAIT_MS: Final = 5_000  # one long poll
REST_WAIT_MS: Final = 1_000  # the same of a stream in the ingestion domain
STALE_AFTER_DEFAULT_MS: Final = 15_000
FOLLOW_FIRST_PAUSE_MS: Final = 50
FOLLOW_PAUSE_BOUND_MS: Final = 2_000
FOLLOWER_STOP_S: Final = 2

# Reading events
REPORT_DEFAULT_MS: Final = 250
POLL_FIRST_MS: Final = 5
POLL_BOUND_MS: Final = 100
READ_AHEAD_OFFSETS: Final = 4_096  # of one segment
READ_AHEAD_BYTES: Final = 4 * 1024 * 1024
LATE_WRITERS: Final = 1_000  # counted by name; the others together
WORK_CAPACITY_DEFAULT: Final = 100  # events under way at a time
