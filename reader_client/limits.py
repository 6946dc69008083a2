"""The bounds of readers, the unit last. They add to `strandline.limits`."""

from typing import Final

# Marks that follow the stream
CACHED_MARKS_DEFAULT: Final = 100_000  # of one key; older positions are answered by a call
FOLLOWED_KEYS: Final = 16  # of one stream; windows of further keys are answered by a call
MARKS_PER_PAGE: Final = 1_000  # asked for at a time
FOLLOW_WAIT_MS: Final = 5_000  # one long poll
REST_WAIT_MS: Final = 1_000  # the same of a stream in the ingestion domain
STALE_AFTER_DEFAULT_MS: Final = 15_000  # so long after the controller was last heard cached marks are trusted
FOLLOW_FIRST_PAUSE_MS: Final = 50  # after a failure at first, then twice as long each time
FOLLOW_PAUSE_BOUND_MS: Final = 2_000  # the longest of these pauses
FOLLOWER_STOP_S: Final = 2  # how long closing waits for the follower

# Reading events
REPORT_DEFAULT_MS: Final = 250  # between two reports of how far a reader has come
POLL_FIRST_MS: Final = 5  # between two looks at a log without new events at first, then twice as long each time
POLL_BOUND_MS: Final = 100  # the longest of these pauses
READ_AHEAD_OFFSETS: Final = 4_096  # of one segment
READ_AHEAD_BYTES: Final = 4 * 1024 * 1024  # of events that were read and not handed out
LATE_WRITERS: Final = 1_000  # counted by name; the others together
WORK_CAPACITY_DEFAULT: Final = 100  # events under way at a time
