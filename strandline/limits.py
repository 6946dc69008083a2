"""Every bound of the project, each named once, the unit last.

A bound that a caller can meet is reported by name in the error it causes.
"""

from typing import Final

# Numbers on the wire
TIME_BOUND_MS: Final = 2**53  # |time| stays below it: a JSON reader with doubles keeps it whole
OFFSET_BOUND: Final = 2**53  # offsets stay below it, for the same reason

# Sizes
NAME_CHARACTERS: Final = 249  # of a stream, a writer, a group, a reader, a segment, a time key
NAMES_REMEMBERED: Final = 65_536  # names that were found to be in order are not looked at again
BODY_BYTES: Final = 1024 * 1024  # of a request; past it 413 too_large
NOTES_PER_REQUEST: Final = 10_000  # past it 422 too_many
SEGMENTS_PER_STREAM: Final = 65_536  # sealed ones too; past it 422 too_many
KEYS_PER_STREAM: Final = 256  # independent times; past it 422 too_many
STANDINGS_PER_STREAM: Final = 250_000  # writers, each counted once for every time key it holds; past it 422 too_many
STREAMS_PER_GROUP: Final = 256  # that one reader group reads; past it 422 too_many
KEYS_PER_COALESCER: Final = KEYS_PER_STREAM * STREAMS_PER_GROUP  # its inputs are at most the streams of a group
PAGE_ENTRIES: Final = 1_000  # the largest `limit` of a list
PAGE_DEFAULT_ENTRIES: Final = 100  # of a list that was asked for without a `limit`
JSON_DEPTH: Final = 32  # objects and lists within each other in a body; past it 400 bad_json

# Windows of plain Python
WINDOW_EVENTS: Final = 1_000_000  # in windows that are open, unless told otherwise

# The aggregate
HISTORY_NOTES_PER_WRITER: Final = 64  # per key; beyond it every second note goes, the later of two stays

# Calls over HTTP
HOST_CHARACTERS: Final = 260  # of a host with its port; a name has at most 253

# Forgetting
FORGOTTEN_PER_CALL: Final = 256  # writers; whoever else may be forgotten is so with later calls of the stream
GONE_KEPT_MS: Final = 60_000  # a closed or lost writer stays known for so long after it was last heard

# Silence
COMMIT_HANGS_MS: Final = 1_000  # a commit that takes so long counts as a store that was away

# A clock that follows the host's
CLOCK_STEP_MS: Final = 5_000  # a host's clock that is so far away was set; nearer, it is just followed
CLOCK_CONFIRM_MS: Final = 60_000  # a step forward that has lasted so long is followed
CLOCK_STEP_BOUND_MS: Final = 86_400_000  # a longer step forward is followed only by the next controller
CLOCK_SLEW_PART: Final = 8  # following, it goes faster or slower by an eighth
CLOCK_NEAR_SLEW_PART: Final = 2  # or slower by a half, where the host's clock is less than a step behind

# Waiting
WAIT_BOUND_MS: Final = 30_000  # the longest `wait_ms`

# Defaults of a stream's configuration
WRITER_TIMEOUT_DEFAULT_MS: Final = 60_000  # a writer that is silent for so long no longer holds time back
MARK_INTERVAL_DEFAULT_MS: Final = 1_000  # at least so long between two marks
MAX_AHEAD_DEFAULT_MS: Final = 86_400_000  # a note may be so far ahead of the clock
IDLE_LAG_DEFAULT_MS: Final = 10_000  # ingestion domain: so far behind the clock is the time of a stream at rest
FORGET_AFTER_DEFAULT_MS: Final = 86_400_000  # so long marks go on naming a lost writer
MAX_WRITERS_DEFAULT: Final = 100_000  # of a stream, that are kept
READER_TIMEOUT_DEFAULT_MS: Final = 30_000  # a reader that is silent for so long loses its segments

# Logs
MEMO_BYTES: Final = 4_000  # what a commit may keep for its writer; Kafka takes 4096 beside an offset

# The embedded log
LOG_BUSY_TIMEOUT_MS: Final = 30_000  # how long an append waits for its turn among other writers
LOG_FAULTS_TOLD: Final = 100  # by SQLite, of the file of a log that is checked
EVENT_BYTES: Final = 1024 * 1024  # of an event, its key and its value together
EVENT_OVERHEAD_BYTES: Final = 200  # what an event takes in memory beside its key and value
TRANSACTION_BYTES: Final = 256 * 1024 * 1024  # of a transaction that waits in memory for its commit
TRUNCATE_ROWS: Final = 10_000  # removed in one transaction: writers go on between two of them
BATCH_ROWS: Final = 65_536  # the most rows of an Arrow batch
BATCH_FIRST_ROWS: Final = 256  # it shows how large events are; later ones grow towards BATCH_BYTES
BATCH_GROWTH_TIMES: Final = 4  # larger than the one before is a batch at most
BATCH_BYTES: Final = 16 * 1024 * 1024  # about as many in an Arrow batch

RETENTION_STEPS: Final = 32  # to a mark that was made before a time, each as far back as the one before was late

# Kafka
KAFKA_DELETE_MS: Final = 30_000  # how long a broker may take to remove records
FAILED_EVENTS_KEPT: Final = 100_000  # until someone is told; of more it is told how many
KAFKA_ASK_MS: Final = 30_000  # how long a question about a topic is repeated, as while a partition has no leader
KAFKA_ATTEMPT_MS: Final = 5_000  # one of these questions
KAFKA_MISSING_MS: Final = 1_000  # how long a topic that one broker does not know may be known to another
KAFKA_PAUSE_MS: Final = 50  # between two of these questions
KAFKA_STEP_MS: Final = 50  # at most so long a wait for reports goes on after the last one that it is about
KAFKA_DELIVERY_MS: Final = 120_000  # a producer's own default: after that an event is acknowledged or has failed
KAFKA_COMMIT_MS: Final = 60_000  # how long a commit is tried again
KAFKA_CLOSE_MS: Final = 10_000  # how long closing waits for what is under way
KAFKA_READ_STALL_MS: Final = 60_000  # without an event that must be there
KAFKA_READ_WAIT_MS: Final = 10  # of a broker that has no more to send
KAFKA_READ_AHEAD_KIB: Final = 16_384  # fetched before it is asked for

# The Spark source
PARTITION_ROWS: Final = 1_000_000  # a longer range is divided, so that catching up uses every core
CONTROLLER_WAIT_DEFAULT_MS: Final = 60_000  # how long a query waits for a controller that is away
WINDOW_ATTEMPT_MS: Final = 10_000  # one request for a time window
WINDOW_FIRST_PAUSE_MS: Final = 50  # between two of these requests at first, then twice as long each time
WINDOW_PAUSE_BOUND_MS: Final = 2_000  # the longest of these pauses
BACKLOG_BATCH_DEFAULT_ROWS: Final = 10_000_000  # a batch of a job that works off a backlog
REPORT_PAUSE_MS: Final = 500  # between attempts to tell the controller what a query has read, or how far its time is
DECIDED_ATTEMPTS: Final = 240  # looks at a topic until none of its transactions is open, REPORT_PAUSE_MS apart
INQUIRY_PAUSE_MS: Final = 250  # between two looks at the queries of a Spark Connect session, which nobody calls
INQUIRY_CLOSE_MS: Final = 5_000  # how long closing waits for the look that is under way
QUERY_IDLE_MS: Final = 10_000  # without a batch; then a listener hears that the query is there, as Spark has it
REPORTS_WAITING: Final = 1_024  # queries whose newest report is still to be sent
START_SEARCH_STEPS: Final = 64  # to a mark below a time; each step back is twice the one before
PROGRAM_CHECK_S: Final = 60  # how long Java or Python may take to say what it is

# Problems
PROBLEM_TEXT_CHARACTERS: Final = 512  # of a text in a problem; the rest is cut off
PROBLEM_DETAIL_CHARACTERS: Final = 2_000  # of its sentence
PROBLEM_ENTRIES: Final = 16  # of a list or an object in it
PROBLEM_DEPTH: Final = 4  # lists and objects within each other
PROBLEM_NUMBER: Final = 2**63 - 1  # the greatest whole number; JSON readers have trouble with more

# Calls
CALL_DEADLINE_DEFAULT_MS: Final = 15_000  # how long a call is kept up, attempts and pauses together
ATTEMPT_DEFAULT_MS: Final = 5_000  # how long one attempt waits for its answer
FIRST_PAUSE_DEFAULT_MS: Final = 50  # between attempts at first, then twice as long each time
PAUSE_BOUND_DEFAULT_MS: Final = 2_000  # the longest pause between attempts
ATTEMPTS_DEFAULT: Final = 100  # of one request
ANSWER_BYTES: Final = 64 * 1024 * 1024  # of an answer; a client reads no further

# Connections
TOKEN_FILE_BYTES: Final = 4_096  # a larger file holds no token
CONNECT_MS: Final = 2_000  # how long connecting may take
CONNECTIONS: Final = 20  # that one client keeps open to a controller
IDLE_CONNECTION_MS: Final = 3_000  # below the 5 s after which common servers hang up
