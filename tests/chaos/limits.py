"""The bounds of the harness, the unit last."""

from typing import Final

# Clients
CONNECT_S: Final = 2.0
ANSWER_S: Final = 6.0  # how long a raw client waits for an answer
RETRY_S: Final = 0.1  # between two tries of one call, on average
PROJECT_ATTEMPT_MS: Final = 3_000  # one attempt of the project's own clients
PROJECT_DEADLINE_MS: Final = 10_000

# Processes
READY_S: Final = 180.0  # until a controller serves: on a busy machine it has taken 56
READY_LOOK_S: Final = 0.01
LEASE_S: Final = 3.0  # the same of one of several controllers: a shorter stop, or a shorter cut to the store
ROUND_TRIP_S: Final = 0.3  # one of several controllers knows the store's time to within an answer of the store
COUNTED_PAUSE_S: Final = 1.5  # a process that stands still for less is silence like any other (decision 0050)
END_S: Final = 30.0  # until a controller that was told to stop has ended

# A round
ROUND_KILLS: Final = 50
ROUND_FAULTS: Final = 20  # of a round with several controllers
FAULTS_AT_ONCE: Final = 3
BACK_S: Final = 5.0  # after the last fault, in which several controllers serve every stream again
BACK_MARGIN_S: Final = 10.0  # for a machine that has other work
CALM_S: Final = 30.0  # after the last fault everything moves on, and never stands still for so long
LOOK_S: Final = 0.1  # between two looks whether it has
WRITER_TIMEOUT_MS: Final = 1_600  # of the stream whose writers can be lost
READER_TIMEOUT_MS: Final = 3_000  # of the group
CHUNK_BYTES: Final = 65_536  # that the proxy reads at a time
