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
NOTE_SEGMENTS: Final = 32  # so many segments of a position count as one more note of work
PIECE_ANSWERS: Final = 512  # encoded as JSON at once
SMALL_BODY_BYTES: Final = 16 * 1024  # a larger body is read only when its turn comes
WAITING_BYTES: Final = 2 * 1024 * 1024  # of their bodies; beyond it further requests get 503 overloaded

# Requests
CONFIGS_REMEMBERED: Final = 1_024  # settings of streams as the store has them; others are read and checked again
RULES_REMEMBERED: Final = 1_024  # which call needs which role, by method and path; past it they are looked up again
RULE_CHARACTERS: Final = 512  # a longer path is looked up each time
REQUEST_ID_CHARACTERS: Final = 100  # of a caller's own `X-Request-Id`

# Memory
RECENT_MARKS: Final = 512  # of each key, in memory; older ones are read from the store
RECENT_OFFSETS: Final = 4_194_304  # in these marks: of a stream with more than 8 192 segments there are fewer
LOADED_MARKS: Final = 256  # of each key, read when a stream is loaded

# Time
HEARTBEAT_MS: Final = 1_000  # how often the store records that this controller still serves
LOOP_STALL_MS: Final = 1_500  # if the event loop did not run for so long, that time counts as unserved
CLOCK_LOOK_MS: Final = 1_000  # how often the clock is compared with the host's
CLOCK_READING_MS: Final = 10  # the host's two clocks are read within this time, or read again
CLOCK_LEAD_MS: Final = 2_000  # the stored bound is this far ahead, so that the clock never steps back after a crash
REST_TELLING_MS: Final = 1_000  # how often a waiting reader of a stream at rest gets its time
ADVANCE_PAUSE_MS: Final = 10  # between two checks of one stream's deadlines

# Store
START_DEADLINE_S: Final = 60  # opening the store and creating its schema
TOKEN_DEADLINE_S: Final = 30  # a command that makes, lists or revokes tokens
READY_WRITE_MS: Final = 3_000  # a commit this recent shows that the store can be written; else one is tried
BUSY_TIMEOUT_MS: Final = 5_000  # SQLite: how long a statement waits for the file
CONNECT_TIMEOUT_S: Final = 5  # PostgreSQL: how long connecting may take
TAKE_OVER_WAIT_MS: Final = 3_000  # PostgreSQL: the wait for the session of a controller that was killed to end
STATEMENT_TIMEOUT_MS: Final = 30_000  # PostgreSQL: how long a statement may take
IDLE_COMMIT_MS: Final = 1_000  # PostgreSQL: from the check of a commit to its rows; past it the server ends the session
IDLE_BEGIN_MS: Final = 10_000  # PostgreSQL: the same for the statements with which one of many controllers begins
VANISHED_CLIENT_MS: Final = 500  # PostgreSQL: how often the server looks whether who sent a statement is still there
MIGRATE_LOCK_MS: Final = 500  # PostgreSQL: how long a migration beside controllers waits for a lock, and they for it
MIGRATE_PAUSE_MS: Final = 500  # PostgreSQL: before such a migration tries again
MIGRATE_TRIES: Final = 20  # PostgreSQL: of such a migration
ENDED_KEPT_MS: Final = 600_000  # PostgreSQL: how long the row of an ended controller without shards is kept
STREAMS_NAMED: Final = 10  # in the message that a store's clock cannot be set back
TABLES_SHOWN: Final = 5  # in the message that a database is not Strandline's
FAULTS_SHOWN: Final = 1_000  # of a store or log that is checked; all are counted
CHECK_ROWS: Final = 100  # in memory at once during a check, besides the segments and the journal of one stream
LOST_PEER_S: Final = 20  # without a sign of life on a connection, after which either side counts it as lost

# Loading a stream
PAGE_FIRST_ROWS: Final = 256  # rows of the first page, which shows how large rows are
PAGE_GROWTH_TIMES: Final = 4  # the most by which a page may be longer than the one before
PAGE_ROWS: Final = 4_096  # the most rows of a page
PAGE_CHARACTERS: Final = 256 * 1024  # the approximate size of a page
STEP_ITEMS: Final = 1_024  # of work before other tasks run; one writer in one key is an item
ITEM_CHARACTERS: Final = 256  # decoding so many characters of a row counts as one item
MARK_ITEMS: Final = 8  # the work of loading a mark
QUERY_ITEMS: Final = 32  # the work of running a query
STEPS_AT_HAND: Final = 4  # a load with more steps gets a connection of its own
LOADED_TOGETHER: Final = 16  # streams that are wanted at the same time, in one read
LOADS_AT_ONCE: Final = 4  # over connections of their own
LOAD_WAIT_MS: Final = 5_000  # how long a call waits for a stream that is being loaded; then it gets stream_loading

# Tokens
TOKENS: Final = 10_000  # that are not revoked
TOKENS_LOOK_MS: Final = 500  # how often a controller checks for new and revoked tokens
TOKEN_USE_MS: Final = 60_000  # how often the store records which tokens were used

# The log of a stream's writers
LOG_STATES_PER_WRITER: Final = 8  # besides its own row; beyond it the oldest rows of the log are removed
LOG_LEAST_WRITERS: Final = 4  # a log may always be as long as for so many writers
LOG_ROW_STATES: Final = 256  # a commit that changed more writers takes several rows

# Restore
FENCES_SINCE_S: Final = 1_735_689_600  # the start of 2025: seconds since then, as fences, fit for 68 years

# The journal of a stream, or of a reader group
JOURNAL_ENTRIES: Final = 500  # of each topic; a further one replaces the oldest
JOURNAL_BURST_ENTRIES: Final = 200  # of a topic at once; then one for each JOURNAL_REFILL_MS
JOURNAL_REFILL_MS: Final = 1_000  # after the burst, between two entries; those left out are counted
JOURNAL_REFUSALS_BURST_ENTRIES: Final = 20  # the same for refusals of one code
JOURNAL_REFUSALS_REFILL_MS: Final = 60_000  # after the burst, between two refusals
JOURNAL_NAMES: Final = 16  # names in one entry
JOURNAL_WORDS: Final = 8  # that the journals of all streams are searched for
JOURNAL_SEARCH_CHARACTERS: Final = 300  # of these words
JOURNAL_SEARCH_ROWS: Final = 20_000  # that one search looks at; then the caller goes on with the next page
JOURNAL_SEARCH_S: Final = 1.0  # for which one search goes on
JOURNAL_SEARCH_STEP_ROWS: Final = 500  # that it looks at while other reads of the store wait
JOURNAL_SEARCHES: Final = 32  # that run or wait; only one runs
JOURNAL_RESUMED: Final = 64  # newest entries from which a stream that is loaded knows since when what holds

# Server-sent events
EVENT_SUBSCRIBERS: Final = 1_000  # connected readers, of one caller as many as it leaves; a further one gets 503
EVENT_KEEP_ALIVE_S: Final = 15  # without an event; then a comment is sent
EVENT_SEND_DEADLINE_S: Final = 30  # a client that reads nothing for so long is disconnected
EVENT_MARKS: Final = 64  # read and sent at a time
EVENT_ENCODED_MARKS: Final = 16  # of each stream, kept as they were sent

# Retention of marks
RETENTION_LOOK_MS: Final = 10_000  # the least time between two checks of a stream
RETENTION_MARKS: Final = 10_000  # of a key, removed at once
RETENTION_STREAMS: Final = 100  # checked in one heartbeat

# Segments
NOTED_AT_MS: Final = 60_000  # how much of `last_noted_at`, and of what is counted, a crash may lose

# Status, for operators
STATUS_TTL_MS: Final = 900  # all who ask within it share what is worked out; pages and `watch` ask each second
STATUS_STREAMS: Final = 10_000  # the first by name
STATUS_GROUPS: Final = 1_000  # the first by name
PROGRAMS_SHOWN: Final = 64  # writers of a stream that are called as a reader group
STATUS_LOADS: Final = 100  # streams that are not in memory, read from the store for one answer
STATUS_LOAD_WAIT_MS: Final = 500  # for each of these; one with very much in it is loaded for a later answer
STATUS_PAGE_NAMES: Final = 1_000  # read from the store at a time
STATUS_REST: Final = 20  # what took long is shared for so many times as long: it never takes more than a 20th
STATUS_SHARED: Final = 256  # of each kind, kept
STATUS_ASK_MS: Final = 1_000  # how long another controller is waited for that is asked for its part
STATUS_PART_NAMES: Final = 4_000  # of streams and groups, in one call to another controller
STATUS_PARTS: Final = 32  # told to other controllers, kept
STATUS_GROUPS_AT_ONCE: Final = 16  # groups for such a part, some of whose streams other controllers may own
STATUS_GROUPS_WAIT_MS: Final = 700  # how long these are waited for
STATUS_TOLD_WRITERS: Final = 2_000  # of each key of one stream, told to another controller, those in trouble first
STATUS_EXCLUDED: Final = 16  # writers that a mark leaves out, named; all are counted
AHEAD_TOLD_MS: Final = 3_600_000  # a time that is further ahead of the clock is named in the reason of a state
STATUS_REASON_WRITERS: Final = 3  # of these, named in the reason of a state
SLICE_MS: Final = 2  # of work before others get their turn
RATE_MS: Final = 60_000  # marks a second are counted over so long
RATE_MARKS: Final = 200  # or over so many
STILL_LEAST_MS: Final = 5_000  # time that stands still for less than this is never trouble
NEW_STILL_MS: Final = 20_000  # for how long time may stand still before the second mark
STILL_PAUSES: Final = 3  # usual pauses between marks; time that stands still for longer is trouble
CADENCE_PAUSES: Final = 8  # pauses between marks after which a usual pause is mostly forgotten
TAUGHT_STILLS: Final = 4  # a pause counts as usual for at most so many times what was too long

# Counts by writer
COUNTED_WRITERS: Final = 10_000  # of a stream, with own counts of late notes and refusals; others are summed up
STORED_COUNTS_WRITERS: Final = 100  # of these, as many as the store keeps: those with the greatest counts

# From 2000 to 2100: a time in this range counts as milliseconds since 1970, and has a date and a lag
EPOCH_FIRST_MS: Final = 946_684_800_000  # the beginning of 2000
EPOCH_END_MS: Final = 4_102_444_800_000  # the beginning of 2100

# Values as text for people
POSITION_SEGMENTS_SHOWN: Final = 8  # of a position on one line; the others are counted

# Metrics
METRICS_KEYS: Final = 1_000  # pairs of a stream and a key with labels of their own; the others are summed up
METRICS_KEYS_OF_STREAM: Final = 16  # of one stream
METRICS_HOLDERS: Final = 10  # writers of each stream and key, named with the time they held; the others are summed up
METRICS_GROUPS: Final = 100  # the first by name
METRICS_PENDING_SEGMENTS: Final = 4_096  # of a group's stream; with more, its pending offsets are left out
METRICS_SEGMENT_LAGS: Final = 20  # segments of a group with a lag of their own, those furthest behind
METRICS_LAGGING_SEGMENTS: Final = 512  # readable by a group; with more, no segment of it has a lag of its own
METRICS_LOADED_STREAMS: Final = 50  # streams not used since the start that one scrape loads from the store
METRICS_STORE_WAIT_MS: Final = 1_000  # how long a scrape waits for the store
METRICS_FRESH_MS: Final = 500  # scrapes closer together get the same answer
METRICS_SLICE_SAMPLES: Final = 200  # written as text before other tasks run

# Logs
LOG_LINES: Final = 10_000  # waiting to be written; further lines are left out, and counted
LOG_BURST_LINES: Final = 500  # of one event at once, except errors and requests; then LOG_REFILL_LINES_PER_S
LOG_REFILL_LINES_PER_S: Final = 20  # after the burst; lines that are left out are counted
LOG_VALUE_CHARACTERS: Final = 1_000  # of one value in a line
SLOW_FLUSH_MS: Final = 1_000  # a commit that takes so long is logged
STORE_TELLING_MS: Final = 10_000  # between two lines about the same failure of the store
DENIALS_BURST_LINES: Final = 20  # of each code at once, 401, 403 and 421; then one for each DENIALS_REFILL_MS
DENIALS_REFILL_MS: Final = 10_000  # after the burst, between two lines; those left out are counted

# Many controllers on one store
LEASE_MS: Final = 3_000  # a controller whose beat stands still for so long may be ended by the others
LEASE_DRIFT_PERCENT: Final = 5  # by which two monotonic clocks may differ: a controller trusts its lease for less
BEAT_MS: Final = 500  # between two beats of a controller
ENDED_CONTROLLERS: Final = 16  # the last ones that ended, which a controller still lists
LATE_BEAT_MS: Final = 1_500  # without a new beat of a controller, nobody hands shards over: it may be dead
FREE_SHARDS_LOOK_MS: Final = 100  # the same while others have shards that this controller is to get
BEAT_RETRY_MS: Final = 200  # after a beat or a begin that failed
STORE_CLOCK_MS: Final = 60_000  # the store's clock is taken from the beats of so long
QUIET_MEMBERSHIP_MS: Final = 5_000  # without a controller that came or went; before that none hands shards over
HANDED_OVER_SHARDS: Final = 16  # by one controller in a beat, to those that have fewer
DRAIN_PARTS: Final = 12  # in which a controller that stops hands its shards over
DRAIN_PAUSE_MS: Final = 100  # between two of them: the others load the streams of one meanwhile
HELD_CALL_MS: Final = 500  # how long a call waits for a shard that is being handed over
DUE_LOOK_MS: Final = 10_000  # how often a controller looks for streams of its shards that time alone is about to change
DUE_STREAMS: Final = 1_000  # found at a time
DUE_LOADS: Final = 4  # of these, loaded at once
DUE_STALE_MS: Final = 60_000  # the store is told the next moment of a loaded stream again after so long
NEVER: Final = 2**62  # the moment of what time alone does not change
SHARDS: Final = 256  # of a new store
LEAST_SHARDS: Final = 64  # of a store that more than one controller serves
MOST_SHARDS: Final = 4_096  # the same, at most

# Several processes of one `serve`
PROCESSES: Final = 64  # at most; a store has at least so many shards
RESTART_PAUSE_S: Final = 1.0  # before a process is started again; twice as long after each further failure
RESTART_PAUSES_S: Final = 30.0  # the longest such pause
STEADY_PROCESS_S: Final = 60.0  # a process that was ready for so long is started again at once, without a pause
KILL_AFTER_S: Final = 5  # past `drain_s`, a process that has not ended is killed

# Calls that are passed on to the controller that owns the stream or group
PASS_ON_MS: Final = 2_000  # how long an owner is looked for that can be reached and takes the call
PASS_ON_PAUSE_MS: Final = 100  # between two attempts, unless who owns what changes before
PEER_CONNECT_MS: Final = 500  # how long connecting to another controller may take
PEER_ANSWER_MS: Final = 20_000  # between two pieces of its answer, besides the `wait_ms` of the call
PEER_VIEW_MS: Final = 8_000  # how long another controller may take for a view of its streams, for a reader group
VIEWED_STREAMS: Final = 10_000  # of other controllers, remembered for reader groups as they were seen last
PEER_CALLS: Final = 256  # under way to one other controller; further ones get 503 overloaded
PEER_WAITING_CALLS: Final = 1_000  # the same of those that wait for marks
PEER_IDLE_MS: Final = 3_000  # a connection to another controller that was unused for longer is not used again
PEER_TELLING_MS: Final = 10_000  # between two lines about another controller that was not reached
PEERS_KEPT: Final = 64  # other controllers, by address, whose calls are counted
PASSED_NOTES: Final = 1_024  # of several callers, in one request to their owner
PASSED_NOTES_BYTES: Final = 512 * 1024  # of these notes; further ones wait for the next request
WAITING_PASSED_NOTES: Final = 20_000  # for one owner; beyond it notes get 503 overloaded
