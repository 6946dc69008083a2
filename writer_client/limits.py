"""The bounds of writers, the unit last. They add to `strandline.limits`."""

from typing import Final

from strandline.limits import BODY_BYTES, NOTES_PER_REQUEST

# Many notes in one request
BATCH_NOTES: Final = NOTES_PER_REQUEST  # as many as a controller takes
BATCH_BYTES: Final = BODY_BYTES - 1_024  # what stands around the notes takes less than the rest
BATCHES_AT_ONCE: Final = 2  # one is on its way back while the next is judged; more only share the same controller
CALLS_AT_ONCE: Final = 8  # of the writers that share a connection: httpx gets slower with more

# Registering
REGISTRATION_BYTES: Final = 8  # of chance in the name of a registration: nobody else's has the same

# Background mode
GATHER_MS: Final = 5  # how long a note waits for others to come along
WAITING_NOTES_PER_WRITER: Final = 64  # while the controller is away; then every second goes, the later of two stays
REGISTERING_BATCH_WRITERS: Final = 500  # while others register, fewer are not worth a request of their own
FLUSHES_AT_ONCE: Final = 8  # of different logs; one that hangs keeps others waiting only when there are as many
PAUSE_BOUND_MS: Final = 5_000  # between attempts to send the same notes
DRAIN_DEFAULT_MS: Final = 15_000  # how long closing waits for notes that are under way
TRANSACTION_LOOK_MS: Final = 100  # between looks whether a producer's own transaction is over
EXIT_DRAIN_MS: Final = 5_000  # how long a process that ends waits for them, and a block that ends with an exception
EXIT_PAUSE_MS: Final = 200  # at most between attempts then
UNSENT_WRITERS_TOLD: Final = 20  # of those whose notes could not be sent then
CLOCK_JOIN_MS: Final = 5_000  # how long a waiting writer that lets go waits for a note by the clock under way
NOTE_PERIOD_DEFAULT_MS: Final = 5_000  # between two notes that are made automatically
NOTE_LAG_DEFAULT_MS: Final = 1_000  # how old an event may be when it is written: these notes are so far behind
