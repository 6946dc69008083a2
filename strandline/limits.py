"""The bounds of what everyone shares, each named once, with its unit last.

The error for an exceeded bound reports it. docs/reference/limits.md is made from the comments.
"""

from typing import Final

# Numbers on the wire
TIME_BOUND_MS: Final = 2**53  # |time| is below it, so that a JSON reader with doubles does not round it
OFFSET_BOUND: Final = 2**53  # offsets are below it, for the same reason

# Sizes
NAME_CHARACTERS: Final = 249  # of a stream, a writer, a group, a reader, a segment, a time key
BODY_BYTES: Final = 1024 * 1024  # of a request; past it 413 too_large
NOTES_PER_REQUEST: Final = 10_000  # past it 422 too_many
SEGMENTS_PER_STREAM: Final = 65_536  # including sealed ones; past it 422 too_many
KEYS_PER_STREAM: Final = 256  # independent times; past it 422 too_many
STANDINGS_PER_STREAM: Final = 250_000  # writers, each counted once for every time key it holds; past it 422 too_many
STREAMS_PER_GROUP: Final = 256  # read by one reader group; past it 422 too_many
PAGE_ENTRIES: Final = 1_000  # the largest `limit` of a list
PAGE_DEFAULT_ENTRIES: Final = 100  # of a list, for a call without a `limit`
JSON_DEPTH: Final = 32  # nested objects and lists in a body; past it 400 bad_json

# Waiting
WAIT_BOUND_MS: Final = 30_000  # the longest `wait_ms`

# The Spark source
PARTITION_ROWS: Final = 1_000_000  # a longer range is split, so that catching up uses every core
CONTROLLER_WAIT_DEFAULT_MS: Final = 60_000  # how long a query waits for a controller that is away
WINDOW_FIRST_PAUSE_MS: Final = 50  # between two of these requests at first, then twice as long each time
WINDOW_PAUSE_BOUND_MS: Final = 2_000  # the longest of these pauses
BACKLOG_BATCH_DEFAULT_ROWS: Final = 10_000_000  # of a batch of a job that works off a backlog
REPORT_PAUSE_MS: Final = 500  # between attempts to report to the controller what a query has read, or its time
REPORT_WAIT_MS: Final = 10_000  # in an availableNow run: how long a batch waits for the report of the one before it
