"""The bounds of what everyone shares, each named once, with its unit last.

The error for an exceeded bound reports it.
"""

from typing import Final

# Numbers on the wire
TIME_BOUND_MS: Final = 2**53  # |time| is below it, so that a JSON reader with doubles does not round it
OFFSET_BOUND: Final = 2**53  # offsets are below it, for the same reason

# Sizes
NAME_CHARACTERS: Final = 249  # of a stream, a writer, a group, a reader, a segment, a time key
BODY_BYTES: Final = 1024 * 1024  # of a request; past it 413 too_large
NOTES_PER_REQUEST: Final = 10_000  # past it 422 too_many
SEGMENTS_PER_STREAM: Final = 65_536  # including sealed ones; past it 422 too_many
KEYS_PER_STREAM: Final = 256  # independent times; past it 422 too_many
MEMO_BYTES: Final = 4_000  # of the times that a log keeps with a commit: some 150 short keys; Kafka takes 4096
STANDINGS_PER_STREAM: Final = 250_000  # writers, each counted once for every time key it holds; past it 422 too_many
STREAMS_PER_GROUP: Final = 256  # read by one reader group; past it 422 too_many
PAGE_ENTRIES: Final = 1_000  # the largest `limit` of a list
PAGE_DEFAULT_ENTRIES: Final = 100  # of a list, for a call without a `limit`

# Waiting
WAIT_BOUND_MS: Final = 30_000  # the longest `wait_ms`
