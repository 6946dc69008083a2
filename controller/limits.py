"""The bounds that only the server has, each named once, the unit last. What callers meet is in `strandline.limits`."""

from typing import Final

# Group commit
WAITING_CALLS: Final = 20_000  # applied and not yet durable; beyond it calls are turned away
FLUSH_NOTES: Final = 1_024  # of requests with many notes, in one flush; the next ones wait until it is on its way
RETRY_AFTER_S: Final = 1  # what a 503 tells callers to wait

# Requests with many notes
PIECE_NOTES: Final = 128  # worked on at once; then others have their turn
NOTE_SEGMENTS: Final = 32  # of a position: so many more are as much work as a note
PIECE_ANSWERS: Final = 512  # written as JSON at once
SMALL_BODY_BYTES: Final = 16 * 1024  # what is larger is read when its turn has come
WAITING_BYTES: Final = 2 * 1024 * 1024  # of their bodies; one more is turned away

# Requests
URL_BYTES: Final = 8_192  # past it 414 url_too_long
HEADERS: Final = 100  # past it 431 headers_too_large
HEADER_BYTES: Final = 16_384  # of one header's value; past it the same
HEAD_BYTES: Final = 65_536  # of all headers; past it the same
FRAMING_BYTES: Final = 16_384  # of chunk sizes, extensions and trailers between two pieces of a body, or after the last
DISCARDED_BYTES: Final = 16 * 1024 * 1024  # of a request that come after its answer; past it the connection ends
PIPELINED_REQUESTS: Final = 64  # on one connection, waiting for the answer before theirs
BODIES_BYTES: Final = 256 * 1024 * 1024  # of all requests that are being read or answered; past it 503 overloaded
REQUEST_ID_CHARACTERS: Final = 100  # of a caller's own `X-Request-Id`
DRAIN_DEADLINE_S: Final = 20  # from being told to stop to the end, whatever the calls under way and the store do
STOP_DEADLINE_S: Final = 5  # of that, kept for the last commit and for closing the store

# Connections
CONNECTIONS: Final = 10_000  # fewer where the process may open fewer files; one more takes the place of an idle one
RESERVED_CONNECTIONS: Final = 32  # beyond these, where none is idle: only /healthz and /readyz are answered there
OTHER_FILES: Final = 128  # that the process may have open beside connections
LEAST_CONNECTIONS: Final = 16  # however few files the process may open
ACCEPTED_AT_ONCE: Final = 16  # before others get their turn
BACKLOG: Final = 2_048  # that the kernel keeps until they are accepted
FULL_TELLING_S: Final = 10.0  # between two lines in the log that say that there are too many

# How long a connection may take
HANDSHAKE_S: Final = 10.0  # TLS
FIRST_BYTE_S: Final = 10.0  # from there to the first byte of a request
HEAD_DEADLINE_S: Final = 10.0  # from the first byte of a request to the end of its headers
BODY_DEADLINE_S: Final = 20.0  # from there to the last byte of its body
KEEP_ALIVE_S: Final = 75.0  # from an answer to the next request
SEND_STALL_S: Final = 30.0  # in which a caller has to take at least
SEND_STALL_BYTES: Final = 65_536  # so much of an answer, or what is left of it
LINGER_S: Final = 2.0  # how long a connection that was turned away stays open, so that its caller can read why
EVICTED_AFTER_S: Final = 1.0  # who has waited for less does not make room for another connection
RESERVED_S: Final = 5.0  # the whole life of a reserved connection
WAITS_LOOK_TICKS: Final = 5  # of the server, 100 ms each: how often it is looked who waits for too long

# Memory
RECENT_MARKS: Final = 2_048  # of each key, kept packed in memory; older ones are looked up in the store
LOADED_MARKS: Final = 256  # of each key, read when a stream is loaded

# Time
HEARTBEAT_MS: Final = 1_000  # how often the store hears that this controller still serves
LOOP_STALL_MS: Final = 1_500  # if the event loop did not run for so long, nobody could be heard meanwhile
CLOCK_LOOK_MS: Final = 1_000  # how often the clock is compared with the host's
CLOCK_READING_MS: Final = 10  # the host's two clocks are read within so long, or once more
CLOCK_LEAD_MS: Final = 2_000  # the stored bound is this far ahead, so that the clock never steps back over a crash
REST_TELLING_MS: Final = 1_000  # how often a waiting reader of a stream at rest is told its time
ADVANCE_PAUSE_MS: Final = 10  # between two looks at one stream's deadlines

# Store
COMMIT_DEADLINE_S: Final = 10  # a commit, connecting again included; past it the session is given up
READ_DEADLINE_S: Final = 15  # the same for a stream or group that is loaded, and for every other read
CUT_GRACE_S: Final = 1  # a session that is ended has so long to say what became of its call
CLOSE_DEADLINE_S: Final = 2  # closing both sessions
START_DEADLINE_S: Final = 60  # opening the store and making its schema
TOKEN_DEADLINE_S: Final = 30  # a command that makes, lists or revokes tokens
READY_WRITE_MS: Final = 3_000  # a commit this young shows that the store can be written; else one is tried
READY_WAIT_S: Final = 2  # how long /readyz waits for the store
BUSY_TIMEOUT_MS: Final = 5_000  # SQLite: how long a statement waits for the file
CONNECT_TIMEOUT_S: Final = 5  # PostgreSQL: how long connecting may take
TAKE_OVER_WAIT_MS: Final = 3_000  # for the session of a controller before this one to be over, after it was killed
STATEMENT_TIMEOUT_MS: Final = 30_000  # PostgreSQL: how long a statement may take
REWIND_SLICE_STREAMS: Final = 500  # set back at a time
STREAMS_NAMED: Final = 10  # of those for which a store's clock cannot be set back
TABLES_SHOWN: Final = 5  # of a database that is not Strandline's, by name
FAULTS_SHOWN: Final = 1_000  # of a store or a log that is checked; all are counted
CHECK_ROWS: Final = 100  # that a check has in memory at once, beside the segments and the journal of a stream
DAMAGED_ROWS_KEPT: Final = 1_000  # that were found since the start, each told once
LOST_PEER_S: Final = 20  # without a sign of life on a connection, either side takes it for lost

# Loading a stream
PAGE_FIRST_ROWS: Final = 256  # it shows how large rows are
PAGE_GROWTH_TIMES: Final = 4  # longer than the one before is a page at most
PAGE_ROWS: Final = 4_096  # the most rows of a page
PAGE_CHARACTERS: Final = 256 * 1024  # about as many in a page
STEP_ITEMS: Final = 1_024  # a writer in a key is one; so many are worked on before others get their turn
ITEM_CHARACTERS: Final = 256  # of a row's text: to decode them is as much work as one item
MARK_ITEMS: Final = 8  # to take in a mark is as much work as so many
QUERY_ITEMS: Final = 32  # to run a query is as much work as so many
STEPS_AT_HAND: Final = 4  # what takes more of them is loaded over a connection of its own
LOADS_AT_ONCE: Final = 4  # over such connections
LOAD_WAIT_MS: Final = 5_000  # a call waits so long for a stream that is being loaded, then it is told to come again

# Tokens
TOKENS: Final = 10_000  # that are not revoked
TOKENS_LOOK_MS: Final = 500  # how often a controller looks whether one was made or revoked
TOKEN_USE_MS: Final = 60_000  # how often the store hears which were used

# The log of a stream's writers
LOG_STATES_PER_WRITER: Final = 8  # beside its own row; beyond it the oldest part of the log goes
LOG_LEAST_WRITERS: Final = 4  # a log may always be as long as that of so many
LOG_ROW_STATES: Final = 256  # a flush that changed more writers takes several rows

# Restore
FENCES_SINCE_S: Final = 1_735_689_600  # the start of 2025: seconds since then, as fences, fit for 68 years

# The journal of a stream, or of a reader group
JOURNAL_ENTRIES: Final = 500  # of each topic; a later one takes the place of the oldest
JOURNAL_BURST_ENTRIES: Final = 200  # of a topic at once, and then one for every
JOURNAL_REFILL_MS: Final = 1_000  # that passes; those left out are counted
JOURNAL_REFUSALS_BURST_ENTRIES: Final = 20  # the same for refusals, by code
JOURNAL_REFUSALS_REFILL_MS: Final = 60_000  # one more for every so long
JOURNAL_HELD_MS: Final = 5_000  # holding time back is told from this length on
JOURNAL_NAMES: Final = 16  # at most so many names in one entry

# Server-sent events
EVENT_SUBSCRIBERS: Final = 1_000  # readers that stay; one more is told 503 overloaded
EVENT_KEEP_ALIVE_S: Final = 15  # after so long without an event a comment is sent
EVENT_SEND_DEADLINE_S: Final = 30  # a client that takes nothing for so long is given up
EVENT_MARKS: Final = 64  # read and sent at a time
EVENT_ENCODED_MARKS: Final = 16  # of each stream and key, kept as they were sent

# Retention of marks
RETENTION_LOOK_MS: Final = 10_000  # at least so long between two looks at a stream
RETENTION_MARKS: Final = 10_000  # of a key, let go at once
RETENTION_STREAMS: Final = 100  # looked at in one beat of the heart

# Segments
NOTED_AT_MS: Final = 60_000  # how much of `last_noted_at` a crash may lose

# Status, for operators
STATUS_TTL_MS: Final = 900  # all who ask within it share what is worked out; pages and `watch` ask each second
STATUS_STREAMS: Final = 10_000  # the first by name
STATUS_GROUPS: Final = 1_000  # the first by name
STATUS_LOADS: Final = 100  # streams that are not in memory, read from the store for one answer
STATUS_LOAD_WAIT_MS: Final = 500  # for each of these; one with very much in it is loaded for a later answer
STATUS_PAGE_NAMES: Final = 1_000  # read from the store at a time
STATUS_REST: Final = 20  # what took long is shared for so many times as long: it never takes more than a 20th
STATUS_SHARED: Final = 256  # of each kind, kept
STATUS_EXCLUDED: Final = 16  # writers that a mark leaves out, named; all are counted
SLICE_MS: Final = 2  # of work before others get their turn
RATE_MS: Final = 60_000  # marks a second are counted over so long
RATE_MARKS: Final = 200  # or over so many
STALLED_MS: Final = 5_000  # who holds time back and was not heard from for so long stands out

# Counts by writer
COUNTED_WRITERS: Final = 10_000  # of a stream, with late notes and refusals of their own; the rest is summed up

# From 2000 to 2100: a time within these is taken for milliseconds since 1970, and has a date and a lag
EPOCH_FIRST_MS: Final = 946_684_800_000  # the beginning of 2000
EPOCH_END_MS: Final = 4_102_444_800_000  # the beginning of 2100

# Values as text for people
POSITION_SEGMENTS_SHOWN: Final = 8  # of a position in a line; how many more there are is said

# Metrics
METRICS_KEYS: Final = 1_000  # pairs of a stream and a key with labels of their own; the rest is summed up
METRICS_KEYS_OF_STREAM: Final = 16  # of these
METRICS_HOLDERS: Final = 10  # writers of each stream and key named with the time they held; the rest is summed up
METRICS_GROUPS: Final = 100  # the first by name
METRICS_PENDING_SEGMENTS: Final = 4_096  # of a group's stream; with more its pending offsets are left out
METRICS_SEGMENT_LAGS: Final = 20  # segments of a group, those furthest behind, that have a lag of their own
METRICS_LAGGING_SEGMENTS: Final = 512  # that a group can read now; with more, no segment of it has a lag of its own
METRICS_LOADED_STREAMS: Final = 50  # of the store, loaded by one scrape if nobody used them since the start
METRICS_STORE_WAIT_MS: Final = 1_000  # a scrape waits so long for what the store has to tell
METRICS_FRESH_MS: Final = 500  # scrapes closer together get the same
METRICS_SLICE_SAMPLES: Final = 200  # written as text before others get their turn

# Logs
LOG_LINES: Final = 10_000  # waiting to be written; beyond it lines are left out, and counted
LOG_BURST_LINES: Final = 500  # of one event at once, errors and requests aside, and then
LOG_REFILL_LINES_PER_S: Final = 20  # as many as this; those left out are counted
LOG_VALUE_CHARACTERS: Final = 1_000  # of one value in a line
SLOW_FLUSH_MS: Final = 1_000  # a flush that takes so long has a line in the log
STORE_TELLING_MS: Final = 10_000  # between two lines about the same trouble with the store
DENIALS_BURST_LINES: Final = 20  # of each code at once, 401 and 403, and then one for every
DENIALS_REFILL_MS: Final = 10_000  # that passes; those left out are counted
