"""The bounds of the commands that ask a controller, the unit last."""

from typing import Final

# How long a command tries
DEADLINE_MS: Final = 10_000
ATTEMPTS: Final = 3

# Names
NAMES_COMPARED: Final = 10_000  # among which those close to an unknown name are looked for
NAMES_TOLD: Final = 5
NAMED_CHARACTERS: Final = 7_500  # of the streams that one request names, in its path

# What is shown at once; with --json everything is
STREAMS_SHOWN: Final = 50
GROUPS_SHOWN: Final = 50
SEGMENTS_SHOWN: Final = 50
ENTRIES_SHOWN: Final = 20  # of marks, the journal or a time index, unless --limit says otherwise

# Watching and following
REFRESH_MS: Final = 1_000
FOLLOW_WAIT_MS: Final = 20_000  # one request for the next mark
FOLLOW_PAUSE_MS: Final = 200  # after an answer without a mark

# Waiting for a time
WAIT_TOLD_MS: Final = 60_000  # between two lines that say the same

# Draining
DRAIN_MS: Final = 40_000  # how long the command waits; a controller that is told to end takes 20 s at most
DRAIN_PAUSE_MS: Final = 200

# Tailing
TAIL_INTERVAL_MS: Final = 1_000
TAIL_INTERVAL_LEAST_MS: Final = 10
TAIL_INTERVAL_BOUND_MS: Final = 3_600_000
