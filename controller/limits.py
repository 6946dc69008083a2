"""The bounds of the server alone, each named once, with the unit last. Callers' bounds are in `strandline.limits`."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a stranger's request, or a peer that fails, may take at most. An application gets them as an argument."""

    # Connections
    connections: int = 10_000  # fewer if the process may open fewer files
    evicted_after_s: float = 1.0  # one that has waited for its caller for so long makes room for a further one
    first_byte_s: float = 10.0  # from the beginning of a connection to its first request
    head_s: float = 10.0  # from the first byte of a request to the end of its headers
    body_s: float = 20.0  # from the end of the headers to the last byte of the body
    keep_alive_s: int = 75  # from an answer to the next request
    unread_answer_s: float = 30.0  # for which a caller may leave an answer unread
    head_bytes: int = 65_536  # of the request line and headers, or between two pieces of a body
    unwanted_bytes: int = 16 * 1024 * 1024  # of a body, after its answer
    pipelined_requests: int = 64  # on one connection, waiting for earlier answers
    bodies_bytes: int = 256 * 1024 * 1024  # of bodies that are being read; past it 503 overloaded

    # Store
    commit_s: float = 10  # a commit, including a reconnect; past it the session is ended
    read_s: float = 15  # the same for loading a stream or group, and for every other read
    cut_grace_s: float = 1  # how long a call may take to end after its session was ended
    close_s: float = 2  # closing the connections to the store
    ready_s: float = 2  # how long /readyz waits for the store

    # The end
    drain_s: float = 20  # from the signal to stop until the end, whatever calls and the store do
    hand_over_s: float = 10  # of that, at most, for giving shards to other controllers; calls have the rest
    stop_s: float = 5  # of that, reserved for the last commit and for closing the store


DEFAULT_LIMITS: Final = Limits()

# Group commit
WAITING_CALLS: Final = 20_000  # applied and not yet durable; beyond it calls get 503 overloaded
FLUSH_NOTES: Final = 1_024  # of requests with many notes, in one commit; further ones wait for the next
RETRY_AFTER_S: Final = 1  # the Retry-After of a 503

# Requests with many notes
PIECE_NOTES: Final = 128  # processed at once; then other calls have their turn
SMALL_BODY_BYTES: Final = 16 * 1024  # a larger body is read only when its turn comes
WAITING_BYTES: Final = 2 * 1024 * 1024  # of their bodies; beyond it further requests get 503 overloaded

# Time
HEARTBEAT_MS: Final = 1_000  # how often the store records that this controller still serves
CLOCK_LEAD_MS: Final = 2_000  # the stored bound is this far ahead, so that the clock never steps back after a crash
REST_TELLING_MS: Final = 1_000  # how often a waiting reader of a stream at rest gets its time

# Store
START_DEADLINE_S: Final = 60  # opening the store and creating its schema
TOKEN_DEADLINE_S: Final = 30  # a command that makes, lists or revokes tokens
BUSY_TIMEOUT_MS: Final = 5_000  # SQLite: how long a statement waits for the file
FAULTS_SHOWN: Final = 1_000  # of a store or log that is checked; all are counted

# Loading a stream
STEP_ITEMS: Final = 1_024  # of work before other tasks run; one writer in one key is an item
ITEM_CHARACTERS: Final = 256  # decoding so many characters of a row counts as one item
STEPS_AT_HAND: Final = 4  # a load with more steps gets a connection of its own
LOAD_WAIT_MS: Final = 5_000  # how long a call waits for a stream that is being loaded; then it gets stream_loading

# Tokens
TOKENS: Final = 10_000  # that are not revoked

# Restore
FENCES_SINCE_S: Final = 1_735_689_600  # the start of 2025: seconds since then, as fences, fit for 68 years

# The journal of a stream, or of a reader group
JOURNAL_ENTRIES: Final = 500  # of each topic; a further one replaces the oldest
JOURNAL_REFILL_MS: Final = 1_000  # between two entries of a topic that come after a burst; those left out are counted
JOURNAL_NAMES: Final = 16  # names in one entry
JOURNAL_WORDS: Final = 8  # that the journals of all streams are searched for
JOURNAL_SEARCH_CHARACTERS: Final = 300  # of these words
JOURNAL_SEARCHES: Final = 32  # that run or wait; only one runs

# Server-sent events
EVENT_SUBSCRIBERS: Final = 1_000  # connected readers, of one caller as many as it leaves; a further one gets 503

# Status, for operators
STATUS_STREAMS: Final = 10_000  # the first by name
STATUS_GROUPS: Final = 1_000  # the first by name
STILL_LEAST_MS: Final = 5_000  # time that stands still for less than this is never trouble

# Counts by writer
COUNTED_WRITERS: Final = 10_000  # of a stream, with own counts of late notes and refusals; others are summed up

# Metrics
METRICS_KEYS: Final = 1_000  # pairs of a stream and a key with labels of their own; the others are summed up
METRICS_HOLDERS: Final = 10  # writers of each stream and key, named with the time they held; the others are summed up
METRICS_GROUPS: Final = 100  # the first by name

# Logs
LOG_LINES: Final = 10_000  # waiting to be written; further lines are left out, and counted
LOG_REFILL_LINES_PER_S: Final = 20  # of one event, after a burst; lines that are left out are counted
STORE_TELLING_MS: Final = 10_000  # between two lines about the same failure of the store
DENIALS_REFILL_MS: Final = 10_000  # between two lines about refused calls, after a burst; those left out are counted

# Many controllers on one store
LEASE_MS: Final = 3_000  # a controller whose beat stands still for so long may be ended by the others
LEASE_DRIFT_PERCENT: Final = 5  # by which two monotonic clocks may differ: a controller trusts its lease for less
BEAT_MS: Final = 500  # between two beats of a controller
HELD_CALL_MS: Final = 500  # how long a call waits for a shard that is being handed over
NEVER: Final = 2**62  # the moment of what time alone does not change
SHARDS: Final = 256  # of a new store
LEAST_SHARDS: Final = 64  # of a store that more than one controller serves
MOST_SHARDS: Final = 4_096  # the same, at most

# Several processes of one `serve`
PROCESSES: Final = 64  # at most; a store has at least so many shards

# Calls that are passed on to the controller that owns the stream or group
VIEWED_STREAMS: Final = 10_000  # of other controllers, remembered for reader groups as they were seen last
PEER_CALLS: Final = 256  # under way to one other controller; further ones get 503 overloaded
PEER_WAITING_CALLS: Final = 1_000  # the same of those that wait for marks
PEERS_KEPT: Final = 64  # other controllers, by address, whose calls are counted
WAITING_PASSED_NOTES: Final = 20_000  # for one owner; beyond it notes get 503 overloaded
