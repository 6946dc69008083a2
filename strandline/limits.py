"""Every bound of the project, each named once, the unit last.

A bound that a caller can meet is reported by name in the error it causes.
"""

from typing import Final

# Numbers on the wire
TIME_BOUND_MS: Final = 2**53  # |time| stays below it: a JSON reader with doubles keeps it whole
OFFSET_BOUND: Final = 2**53

# Sizes
NAME_CHARACTERS: Final = 249
NAMES_REMEMBERED: Final = 65_536
BODY_BYTES: Final = 1024 * 1024
NOTES_PER_REQUEST: Final = 10_000
SEGMENTS_PER_STREAM: Final = 65_536
KEYS_PER_STREAM: Final = 256
STREAMS_PER_GROUP: Final = 256
KEYS_PER_COALESCER: Final = KEYS_PER_STREAM * STREAMS_PER_GROUP  # its inputs are at most the streams of a group
PAGE_ENTRIES: Final = 1_000
PAGE_DEFAULT_ENTRIES: Final = 100
JSON_DEPTH: Final = 32

# Windows of plain Python
WINDOW_EVENTS: Final = 1_000_000  # in windows that are open, unless told otherwise

# The aggregate
HISTORY_NOTES_PER_WRITER: Final = 64  # per key; beyond it every second note goes, the later of two stays

# Waiting
WAIT_BOUND_MS: Final = 30_000

# Defaults of a stream's configuration
WRITER_TIMEOUT_DEFAULT_MS: Final = 60_000
MARK_INTERVAL_DEFAULT_MS: Final = 1_000
MAX_AHEAD_DEFAULT_MS: Final = 86_400_000
IDLE_LAG_DEFAULT_MS: Final = 10_000
FORGET_AFTER_DEFAULT_MS: Final = 86_400_000
READER_TIMEOUT_DEFAULT_MS: Final = 30_000

# Logs
MEMO_BYTES: Final = 4_000  # what a commit may keep for its writer; Kafka takes 4096 beside an offset

# The embedded log
LOG_BUSY_TIMEOUT_MS: Final = 30_000  # how long an append waits for its turn among other writers
EVENT_BYTES: Final = 1024 * 1024
EVENT_OVERHEAD_BYTES: Final = 200  # what an event takes in memory beside its key and value
TRANSACTION_BYTES: Final = 256 * 1024 * 1024
BATCH_ROWS: Final = 65_536
BATCH_FIRST_ROWS: Final = 256  # it shows how large events are; later ones grow towards BATCH_BYTES
BATCH_GROWTH_TIMES: Final = 4
BATCH_BYTES: Final = 16 * 1024 * 1024

# Kafka
FAILED_EVENTS_KEPT: Final = 100_000  # until someone is told; of more it is told how many
KAFKA_ASK_MS: Final = 30_000  # how long a question about a topic is repeated, as while a partition has no leader
KAFKA_ATTEMPT_MS: Final = 5_000  # one of these questions
KAFKA_MISSING_MS: Final = 1_000  # how long a topic that one broker does not know may be known to another
KAFKA_PAUSE_MS: Final = 50
KAFKA_STEP_MS: Final = 50  # at most so long a wait for reports goes on after the last one that it is about
KAFKA_DELIVERY_MS: Final = 120_000  # a producer's own default: after that an event is acknowledged or has failed
KAFKA_COMMIT_MS: Final = 60_000
KAFKA_CLOSE_MS: Final = 10_000
KAFKA_READ_STALL_MS: Final = 60_000  # without an event that must be there
KAFKA_READ_WAIT_MS: Final = 10  # of a broker that has no more to send
KAFKA_READ_AHEAD_KIB: Final = 16_384

# The Spark source
PARTITION_ROWS: Final = 1_000_000  # a longer range is divided, so that catching up uses every core
CONTROLLER_WAIT_DEFAULT_MS: Final = 60_000
WINDOW_ATTEMPT_MS: Final = 10_000  # one request for a time window
WINDOW_FIRST_PAUSE_MS: Final = 50
WINDOW_PAUSE_BOUND_MS: Final = 2_000
BACKLOG_BATCH_DEFAULT_ROWS: Final = 10_000_000  # a batch of a job that works off a backlog
REPORT_PAUSE_MS: Final = 500  # between attempts to tell the controller what a query has read, or how far its time is
DECIDED_ATTEMPTS: Final = 240  # looks at a topic until none of its transactions is open, REPORT_PAUSE_MS apart
REPORTS_WAITING: Final = 1_024  # queries whose newest report is still to be sent
START_SEARCH_STEPS: Final = 64  # to a mark below a time; each step back is twice the one before
PROGRAM_CHECK_S: Final = 60  # how long Java or Python may take to say what it is
