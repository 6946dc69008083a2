"""The bounds of writers, the unit last. They add to `strandline.limits`."""

from typing import Final

from strandline.limits import BODY_BYTES, NOTES_PER_REQUEST

# Many notes in one request
BATCH_NOTES: Final = NOTES_PER_REQUEST
BATCH_BYTES: Final = BODY_BYTES - 1_024  # what stands around the notes takes less than the rest
BATCHES_AT_ONCE: Final = 2  # one is on its way back while the next is judged; more only share the same controller
CALLS_AT_ONCE: Final = 8  # of the writers that share a connection: httpx gets slower with more
