"""The bounds of the harness, the unit last."""

from typing import Final

from controller.commit.freshness import FRESH_S
from strandline.core.served_time import SERVED_GAP_MS

# Clients
CONNECT_S: Final = 2.0
ANSWER_S: Final = 6.0  # how long a raw client waits for an answer
RETRY_S: Final = 0.1  # between two tries of one call, on average
PROJECT_ATTEMPT_MS: Final = 3_000  # one attempt of the project's own clients
PROJECT_DEADLINE_MS: Final = 10_000

SEVERAL_ANSWER_S: Final = 1.5  # the same where there are several controllers: then it goes to the next one
AVOIDED_S: Final = 3.0  # a controller that did not answer is the last choice for so long

# Processes
READY_S: Final = 180.0  # until a controller serves: on a busy machine it has taken 56
READY_LOOK_S: Final = 0.01
COUNTED_AWAY_S: Final = SERVED_GAP_MS / 1000  # while nobody serves for less, that is silence like any other
STALE_S: Final = FRESH_S  # by so much a controller may lag behind what others have written
CLOCK_LAG_S: Final = 0.1  # by so much the clocks that two controllers show may differ
PAUSE_S: Final = 5.0  # of a process that is stopped, with locks that others wait for
LOST_S: Final = 0.8  # for so long a standby lacks what the primary writes, before it takes its place
END_S: Final = 30.0  # until a controller that was told to stop has ended

# A round
ROUND_KILLS: Final = 50
CALM_S: Final = 30.0  # after the last fault everything moves on, and never stands still for so long
LOOK_S: Final = 0.1  # between two looks whether it has
WRITER_TIMEOUT_MS: Final = 1_600  # of the stream whose writers can be lost
READER_TIMEOUT_MS: Final = 3_000  # of the group
CHUNK_BYTES: Final = 65_536  # that the proxy reads at a time
