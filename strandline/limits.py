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

# Cuts
SHAPE_NAMES_REMEMBERED: Final = 1_048_576  # names of segments, in all the shapes that cuts share
SHAPES_KNOWN_TO_GROW: Final = 1_024  # in the graph of a stream: those of positions that need no closing

# The aggregate
HISTORY_NOTES_PER_WRITER: Final = 64  # per key; beyond it every second note is dropped, the earlier one of two

# Calls over HTTP
HOST_CHARACTERS: Final = 260  # of a host with its port; a name has at most 253

# Forgetting
FORGOTTEN_PER_CALL: Final = 256  # writers; later calls of the stream forget the rest
GONE_KEPT_MS: Final = 60_000  # a closed or lost writer stays known for this long after it was last heard

# Silence
SILENT_PER_CALL: Final = 256  # writers that time out; later calls of the stream time out the rest
COMMIT_HANGS_MS: Final = 1_000  # while a commit takes longer, the store counts as away

# A clock that follows the host's
CLOCK_STEP_MS: Final = 5_000  # a larger difference to the host's clock is a step; a smaller one is followed at once
CLOCK_CONFIRM_MS: Final = 60_000  # a step forward is followed after it has lasted this long
CLOCK_STEP_BOUND_MS: Final = 86_400_000  # a longer step forward is followed only by the next controller
CLOCK_SLEW_PART: Final = 8  # to follow, the clock runs faster or slower by an eighth
CLOCK_NEAR_SLEW_PART: Final = 2  # or slower by a half, if the host's clock is less than a step behind

# Warnings of clients in the log of their program
WARNINGS_PAUSE_MS: Final = 60_000  # between two lines of one kind
WARNING_LINES: Final = 20  # of all clients of a process, in that time
WAIT_TOLD_AFTER_MS: Final = 2_000  # a client that waits for longer says for whom

# Waiting
WAIT_BOUND_MS: Final = 30_000  # the longest `wait_ms`
WAIT_UNTIL_DEFAULT_MS: Final = 3_600_000  # how long a caller waits until everything older than a time is there
WAIT_UNTIL_BOUND_MS: Final = 7 * 86_400_000  # the longest of these waits
WAIT_STEP_MS: Final = 10_000  # one request of such a wait
WAIT_PAUSE_MS: Final = 500  # after one that ended early, or failed

# Defaults of a stream's configuration
WRITER_TIMEOUT_DEFAULT_MS: Final = 600_000  # a writer that is silent for this long no longer holds time back
MARK_INTERVAL_DEFAULT_MS: Final = 1_000  # the least time between two marks
MAX_AHEAD_DEFAULT_MS: Final = 86_400_000  # how far a note may be ahead of the clock
IDLE_LAG_DEFAULT_MS: Final = 10_000  # ingestion domain: how far the time of an idle stream is behind the clock
FORGET_AFTER_DEFAULT_MS: Final = 86_400_000  # how long marks name a lost writer
MAX_WRITERS_DEFAULT: Final = 100_000  # of a stream
READER_TIMEOUT_DEFAULT_MS: Final = 30_000  # a reader that is silent for this long loses its segments

# Logs
MEMO_BYTES: Final = 4_000  # of the memo that a commit keeps for its writer; Kafka takes 4096 beside an offset

# The embedded log
LOG_BUSY_TIMEOUT_MS: Final = 30_000  # how long an append waits for its turn among other writers
LOG_FAULTS_TOLD: Final = 100  # faults that SQLite lists for the file of a log
EVENT_BYTES: Final = 1024 * 1024  # of an event, its key and its value together
EVENT_OVERHEAD_BYTES: Final = 200  # of memory for an event, beside its key and value
TRANSACTION_BYTES: Final = 256 * 1024 * 1024  # of a transaction that waits in memory for its commit
TRUNCATE_ROWS: Final = 10_000  # removed in one transaction; other writers go on between two transactions
BATCH_ROWS: Final = 65_536  # the most rows of an Arrow batch
BATCH_FIRST_ROWS: Final = 256  # the first batch shows the size of events; later ones grow towards BATCH_BYTES
BATCH_GROWTH_TIMES: Final = 4  # the most by which a batch is larger than the one before
BATCH_BYTES: Final = 16 * 1024 * 1024  # the approximate size of an Arrow batch

RETENTION_STEPS: Final = 32  # back to a mark made before a time; each is as long as the last mark was made too late

# Kafka
KAFKA_DELETE_MS: Final = 30_000  # how long a broker may take to remove records
FAILED_EVENTS_KEPT: Final = 100_000  # until they are reported; more are only counted
KAFKA_ASK_MS: Final = 30_000  # how long a request about a topic is repeated, as while a partition has no leader
KAFKA_ATTEMPT_MS: Final = 5_000  # the time for one attempt of such a request
KAFKA_MISSING_MS: Final = 1_000  # how long a topic counts as not yet known to every broker
KAFKA_PAUSE_MS: Final = 50  # between two attempts
KAFKA_STEP_MS: Final = 50  # one step of a wait for reports: the wait ends at most this long after the last of them
KAFKA_DELIVERY_MS: Final = 120_000  # a producer's own default: after that an event is acknowledged or has failed
KAFKA_COMMIT_MS: Final = 60_000  # how long a commit is repeated
KAFKA_CLOSE_MS: Final = 10_000  # how long closing waits for events under way
KAFKA_READ_STALL_MS: Final = 60_000  # the longest wait for an event that must be there
KAFKA_READ_WAIT_MS: Final = 10  # how long a broker without further events, or a client that is full, may wait
KAFKA_READ_AHEAD_KIB: Final = 16_384  # fetched ahead of the reader
KAFKA_RECONNECT_MS: Final = 20  # before a reader's second connection; librdkafka waits half of it at each start
KAFKA_READ_AHEAD_ROWS: Final = 10_000_000  # so many that only KAFKA_READ_AHEAD_KIB counts
KAFKA_READ_ROWS: Final = 1_024  # taken from the client at a time; with more, Python collects garbage meanwhile

# The Spark source
PARTITION_ROWS: Final = 1_000_000  # a longer range is split, so that catching up uses every core
CONTROLLER_WAIT_DEFAULT_MS: Final = 60_000  # how long a query waits for a controller that is away
STREAM_CHECK_MS: Final = 2_000  # for the answer whether a stream is there, before a query begins
WINDOW_ATTEMPT_MS: Final = 10_000  # one request for a time window
WINDOW_FIRST_PAUSE_MS: Final = 50  # between two of these requests at first, then twice as long each time
WINDOW_PAUSE_BOUND_MS: Final = 2_000  # the longest of these pauses
BACKLOG_BATCH_DEFAULT_ROWS: Final = 10_000_000  # of a batch of a job that works off a backlog
REPORT_PAUSE_MS: Final = 500  # between attempts to report to the controller what a query has read, or its time
REPORT_WAIT_MS: Final = 10_000  # in an availableNow run: how long a batch waits for the report of the one before it
DECIDED_ATTEMPTS: Final = 240  # checks of a topic until it has no open transaction, REPORT_PAUSE_MS apart
INQUIRY_PAUSE_MS: Final = 250  # between two checks of the queries of a Spark Connect session
INQUIRY_CLOSE_MS: Final = 5_000  # how long closing waits for the current check
QUERY_IDLE_MS: Final = 10_000  # without a batch; then a listener gets an idle event, as in Spark
REPORTS_WAITING: Final = 1_024  # queries whose newest report is still to be sent
START_SEARCH_STEPS: Final = 64  # of the search for a mark below a time; each step back is twice the one before
PROGRAM_CHECK_S: Final = 60  # how long Java or Python may take to report its version

# Problems
PROBLEM_TEXT_CHARACTERS: Final = 512  # of a text in a problem; the rest is cut off
PROBLEM_DETAIL_CHARACTERS: Final = 2_000  # of its sentence
PROBLEM_ENTRIES: Final = 16  # of a list or an object in it
PROBLEM_DEPTH: Final = 4  # nested lists and objects in it
PROBLEM_NUMBER: Final = 2**63 - 1  # the greatest whole number in it, for the sake of JSON readers

# Calls
CALL_DEADLINE_DEFAULT_MS: Final = 15_000  # of a call, with all attempts and pauses
ATTEMPT_DEFAULT_MS: Final = 5_000  # how long one attempt waits for its answer
FIRST_PAUSE_DEFAULT_MS: Final = 50  # the first pause between attempts; each further one is twice as long
PAUSE_BOUND_DEFAULT_MS: Final = 2_000  # the longest pause between attempts
ATTEMPTS_DEFAULT: Final = 100  # of one request
ANSWER_BYTES: Final = 64 * 1024 * 1024  # of an answer; a client does not read more

# Connections
TOKEN_FILE_BYTES: Final = 4_096  # a larger file is not read as a token
CONNECT_MS: Final = 2_000  # how long connecting may take
CONNECTIONS: Final = 20  # from one client to a controller
OWNERS_REMEMBERED: Final = 10_000  # streams and groups of which a connection knows owner and fence
OWNER_AVOIDED_MS: Final = 30_000  # how long no request goes straight to an owner that was not reached
OWNERS_AVOIDED: Final = 64  # of these at once
OWNER_CHARACTERS: Final = 300  # of the address of an owner; a longer one is not used
IDLE_CONNECTION_MS: Final = 3_000  # below the 5 s after which common servers close a connection
