"""The limits of writers, with the unit last, in addition to `strandline.limits`."""

from typing import Final

from strandline.limits import BODY_BYTES, NOTES_PER_REQUEST

# Many notes in one request
BATCH_NOTES: Final = NOTES_PER_REQUEST  # as many as a controller takes
BATCH_BYTES: Final = BODY_BYTES - 1_024  # the rest of the request takes less than the difference
BATCHES_AT_ONCE: Final = 2  # the controller checks one while the answer to the other returns; more gain nothing
CALLS_AT_ONCE: Final = 8  # of the writers that share a connection: httpx gets slower with more

# Registering
REGISTRATION_BYTES: Final = 8  # random bytes in the name of a registration, which make it unique

# Background mode
GATHER_MS: Final = 5  # how long a note waits for others of its batch
WAITING_NOTES_PER_WRITER: Final = 64  # while the controller is away; beyond it, the later of each two notes is kept
WAITING_REPORTS: Final = 1_000  # of late events, for `on_report` of one writer
REGISTERING_BATCH_WRITERS: Final = 500  # while others register, the notes of fewer writers wait for them
FLUSHES_AT_ONCE: Final = 8  # of different logs; logs that hang delay others only if there are this many
PAUSE_BOUND_MS: Final = 5_000  # between attempts to send the same notes
DRAIN_DEFAULT_MS: Final = 15_000  # how long closing waits for notes under way
TRANSACTION_LOOK_MS: Final = 100  # between checks whether a producer's own transaction has ended
EXIT_DRAIN_MS: Final = 5_000  # how long notes are still sent when the process ends, or a block raises
EXIT_PAUSE_MS: Final = 200  # at most between attempts then
UNSENT_WRITERS_TOLD: Final = 20  # how many writers with unsent notes are listed then
RELEASE_DRAIN_MS: Final = 5_000  # how long `Writer.release` waits for an automatic note under way
NOTE_PERIOD_DEFAULT_MS: Final = 5_000  # between two automatic notes
NOTE_LAG_DEFAULT_MS: Final = 1_000  # how old an event may be when it is written: automatic notes are this far behind
