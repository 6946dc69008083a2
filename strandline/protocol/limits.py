"""The bounds of calls and answers, the unit last. They add to `strandline.limits`."""

from typing import Final

# Problems
PROBLEM_TEXT_CHARACTERS: Final = 512
PROBLEM_DETAIL_CHARACTERS: Final = 2_000
PROBLEM_ENTRIES: Final = 16
PROBLEM_DEPTH: Final = 4
PROBLEM_NUMBER: Final = 2**63 - 1

# Calls
CALL_DEADLINE_DEFAULT_MS: Final = 15_000
ATTEMPT_DEFAULT_MS: Final = 5_000
FIRST_PAUSE_DEFAULT_MS: Final = 50
PAUSE_BOUND_DEFAULT_MS: Final = 2_000
ATTEMPTS_DEFAULT: Final = 100
ANSWER_BYTES: Final = 64 * 1024 * 1024

# Connections
TOKEN_FILE_BYTES: Final = 4_096
CONNECT_MS: Final = 2_000
CONNECTIONS: Final = 20
IDLE_CONNECTION_MS: Final = 3_000  # below the 5 s after which common servers hang up
