"""The bounds of calls and answers, the unit last. They add to `strandline.limits`."""

from typing import Final

# Problems
PROBLEM_TEXT_CHARACTERS: Final = 512  # of a text in a problem; the rest is cut off
PROBLEM_DETAIL_CHARACTERS: Final = 2_000  # of its sentence
PROBLEM_ENTRIES: Final = 16  # of a list or an object in it
PROBLEM_DEPTH: Final = 4  # lists and objects within each other
PROBLEM_NUMBER: Final = 2**63 - 1  # the greatest whole number; JSON readers have trouble with more

# Calls
CALL_DEADLINE_DEFAULT_MS: Final = 15_000  # how long a call is kept up, attempts and pauses together
ATTEMPT_DEFAULT_MS: Final = 5_000  # how long one attempt waits for its answer
FIRST_PAUSE_DEFAULT_MS: Final = 50  # between attempts at first, then twice as long each time
PAUSE_BOUND_DEFAULT_MS: Final = 2_000  # the longest pause between attempts
ATTEMPTS_DEFAULT: Final = 100  # of one request
ANSWER_BYTES: Final = 64 * 1024 * 1024  # of an answer; a client reads no further

# Connections
TOKEN_FILE_BYTES: Final = 4_096  # a larger file holds no token
CONNECT_MS: Final = 2_000  # how long connecting may take
CONNECTIONS: Final = 20  # that one client keeps open to a controller
IDLE_CONNECTION_MS: Final = 3_000  # below the 5 s after which common servers hang up
