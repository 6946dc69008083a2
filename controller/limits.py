"""The bounds that only the server has, each named once, the unit last. What callers meet is in `strandline.limits`."""

from typing import Final

# Group commit
WAITING_CALLS: Final = 20_000  # applied and not yet durable; beyond it calls are turned away
RETRY_AFTER_S: Final = 1

# Requests
BODY_DEADLINE_S: Final = 20.0  # from the first byte of a body to its last
REQUEST_ID_CHARACTERS: Final = 100
KEEP_ALIVE_S: Final = 75
DRAIN_DEADLINE_S: Final = 20

# Memory
RECENT_MARKS: Final = 2_048  # of each key, kept packed in memory; older ones are looked up in the store
LOADED_MARKS: Final = 256  # of each key, read when a stream is loaded

# Time
HEARTBEAT_MS: Final = 1_000  # how often the store hears that this controller still serves
CLOCK_LEAD_MS: Final = 2_000  # the stored bound is this far ahead, so that the clock never steps back over a crash
REST_TELLING_MS: Final = 1_000  # how often a waiting reader of a stream at rest is told its time
ADVANCE_PAUSE_MS: Final = 10  # between two looks at one stream's deadlines

# Store
BUSY_TIMEOUT_MS: Final = 5_000
