"""The bounds of what everyone shares, each named once, with its unit last.

The error for an exceeded bound reports it. docs/reference/limits.md is made from the comments.
"""

from typing import Final

# Numbers on the wire
TIME_BOUND_MS: Final = 2**53  # |time| is below it, so that a JSON reader with doubles does not round it
OFFSET_BOUND: Final = 2**53  # offsets are below it, for the same reason

# Sizes
NAME_CHARACTERS: Final = 249  # of a stream, a writer, a group, a reader, a segment, a time key
NAMES_REMEMBERED: Final = 65_536  # checked names in a cache
BODY_BYTES: Final = 1024 * 1024  # of a request; past it 413 too_large
NOTES_PER_REQUEST: Final = 10_000  # past it 422 too_many
SEGMENTS_PER_STREAM: Final = 65_536  # including sealed ones; past it 422 too_many
KEYS_PER_STREAM: Final = 256  # independent times; past it 422 too_many
STANDINGS_PER_STREAM: Final = 250_000  # writers, each counted once for every time key it holds; past it 422 too_many
STREAMS_PER_GROUP: Final = 256  # read by one reader group; past it 422 too_many
KEYS_PER_COALESCER: Final = KEYS_PER_STREAM * STREAMS_PER_GROUP  # its inputs are at most the streams of a group
PAGE_ENTRIES: Final = 1_000  # the largest `limit` of a list
PAGE_DEFAULT_ENTRIES: Final = 100  # of a list, for a call without a `limit`
JSON_DEPTH: Final = 32  # nested objects and lists in a body; past it 400 bad_json

# Windows of plain Python
WINDOW_EVENTS: Final = 1_000_000  # in open windows, by default

# The aggregate
HISTORY_NOTES_PER_WRITER: Final = 64  # per key; beyond it every second note is dropped, the earlier one of two

# Forgetting
FORGOTTEN_PER_CALL: Final = 256  # writers; later calls of the stream forget the rest
GONE_KEPT_MS: Final = 60_000  # a closed or lost writer stays known for this long after it was last heard

# Silence
SILENT_PER_CALL: Final = 256  # writers that time out; later calls of the stream time out the rest

# A clock that follows the host's
CLOCK_STEP_MS: Final = 5_000  # a larger difference to the host's clock is a step; a smaller one is followed at once
CLOCK_CONFIRM_MS: Final = 60_000  # a step forward is followed after it has lasted this long
CLOCK_STEP_BOUND_MS: Final = 86_400_000  # a longer step forward is followed only by the next controller
CLOCK_SLEW_PART: Final = 8  # to follow, the clock runs faster or slower by an eighth

# Warnings of clients in the log of their program
WAIT_TOLD_AFTER_MS: Final = 2_000  # a client that waits for longer says for whom

# Waiting
WAIT_BOUND_MS: Final = 30_000  # the longest `wait_ms`
WAIT_UNTIL_DEFAULT_MS: Final = 3_600_000  # how long a caller waits until everything older than a time is there
WAIT_UNTIL_BOUND_MS: Final = 7 * 86_400_000  # the longest of these waits

# Defaults of a stream's configuration
READER_TIMEOUT_DEFAULT_MS: Final = 30_000  # a reader that is silent for this long loses its segments

# Logs
MEMO_BYTES: Final = 4_000  # of the memo that a commit keeps for its writer; Kafka takes 4096 beside an offset

# The embedded log
LOG_BUSY_TIMEOUT_MS: Final = 30_000  # how long an append waits for its turn among other writers
EVENT_BYTES: Final = 1024 * 1024  # of an event, its key and its value together
EVENT_OVERHEAD_BYTES: Final = 200  # of memory for an event, beside its key and value
TRANSACTION_BYTES: Final = 256 * 1024 * 1024  # of a transaction that waits in memory for its commit
BATCH_ROWS: Final = 65_536  # the most rows of an Arrow batch
BATCH_FIRST_ROWS: Final = 256  # the first batch shows the size of events; later ones grow towards BATCH_BYTES
BATCH_GROWTH_TIMES: Final = 4  # the most by which a batch is larger than the one before
BATCH_BYTES: Final = 16 * 1024 * 1024  # the approximate size of an Arrow batch

# Kafka
FAILED_EVENTS_KEPT: Final = 100_000  # until they are reported; more are only counted
KAFKA_ASK_MS: Final = 30_000  # how long a request about a topic is repeated, as while a partition has no leader
KAFKA_ATTEMPT_MS: Final = 5_000  # the time for one attempt of such a request
KAFKA_PAUSE_MS: Final = 50  # between two attempts
KAFKA_READ_AHEAD_KIB: Final = 16_384  # fetched ahead of the reader

# The Spark source
PARTITION_ROWS: Final = 1_000_000  # a longer range is split, so that catching up uses every core
CONTROLLER_WAIT_DEFAULT_MS: Final = 60_000  # how long a query waits for a controller that is away
WINDOW_FIRST_PAUSE_MS: Final = 50  # between two of these requests at first, then twice as long each time
WINDOW_PAUSE_BOUND_MS: Final = 2_000  # the longest of these pauses
BACKLOG_BATCH_DEFAULT_ROWS: Final = 10_000_000  # of a batch of a job that works off a backlog
REPORT_PAUSE_MS: Final = 500  # between attempts to report to the controller what a query has read, or its time
REPORT_WAIT_MS: Final = 10_000  # in an availableNow run: how long a batch waits for the report of the one before it

# Calls
CALL_DEADLINE_DEFAULT_MS: Final = 15_000  # of a call, with all attempts and pauses
ATTEMPT_DEFAULT_MS: Final = 5_000  # how long one attempt waits for its answer
ANSWER_BYTES: Final = 64 * 1024 * 1024  # of an answer; a client does not read more

# Connections
CONNECTIONS: Final = 20  # from one client to a controller
