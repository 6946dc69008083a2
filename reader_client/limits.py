"""The limits of readers, with the unit last, in addition to `strandline.limits`."""

from typing import Final

# Marks that follow the stream
CACHED_MARKS_DEFAULT: Final = 100_000  # of one key; older positions take a call
FOLLOWED_KEYS: Final = 16  # of one stream; windows of further keys take a call
MARKS_PER_PAGE: Final = 500  # requested at a time
OFFSETS_PER_PAGE: Final = 8_192  # in these marks: of a stream with many segments fewer are requested
MARKS_PER_PAGE_LEAST: Final = 16  # of a stream with however many segments
FOLLOW_WAIT_MS: Final = 5_000  # one long poll
REST_WAIT_MS: Final = 1_000  # the same for a stream in the ingestion domain
STALE_AFTER_DEFAULT_MS: Final = 15_000  # how long cached marks are valid after the controller's last answer
FOLLOW_FIRST_PAUSE_MS: Final = 50  # after the first failure, then twice as long each time
FOLLOW_PAUSE_BOUND_MS: Final = 2_000  # the longest of these pauses
FOLLOWER_STOP_S: Final = 2  # how long closing waits for the follower

# Reading events
REPORT_DEFAULT_MS: Final = 250  # between two reports of a reader's positions
POLL_FIRST_MS: Final = 5  # between the first two polls of a log without new events, then twice as long each time
POLL_BOUND_MS: Final = 100  # the longest of these pauses
READ_AHEAD_OFFSETS: Final = 4_096  # of one segment
READ_AHEAD_BYTES: Final = 4 * 1024 * 1024  # of events that were fetched and not returned yet
LATE_WRITERS: Final = 1_000  # whose late events are counted by name
WORK_CAPACITY_DEFAULT: Final = 100  # events under way at a time
