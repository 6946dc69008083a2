"""What callers may take of a controller, the unit last. `strandline.limits` has the numbers of the contract."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a stranger's request may take at most. An application gets them as an argument."""

    # Connections
    connections: int = 10_000  # fewer if the process may open fewer files
    evicted_after_s: float = 1.0  # one that has waited for its caller for so long makes room for a further one
    first_byte_s: float = 10.0  # from the beginning of a connection to its first request
    head_s: float = 10.0  # from the first byte of a request to the end of its headers
    body_s: float = 20.0  # from the end of the headers to the last byte of the body
    keep_alive_s: int = 75  # from an answer to the next request
    unread_answer_s: float = 30.0  # for which a caller may leave an answer unread
    head_bytes: int = 65_536  # of the request line and headers, or between two pieces of a body
    unwanted_bytes: int = 16 * 1024 * 1024  # of a body, after its answer
    pipelined_requests: int = 64  # on one connection, waiting for earlier answers
    bodies_bytes: int = 256 * 1024 * 1024  # of bodies that are being read; past it 503 overloaded

    # Calls that wait: past it 503 overloaded
    waiting_calls: int = 20_000  # for the next commit
    waiting_bytes: int = 2 * 1024 * 1024  # of the bodies of requests with many notes
    subscribers: int = 1_000  # to server-sent events; of one caller, as many as it leaves for others
    load_wait_ms: int = 5_000  # for a stream that is being loaded: past it 503 stream_loading

    # Store
    commit_s: float = 10  # a commit, including a reconnect; past it the session is ended
    outcome_s: float = 2  # for which calls wait until it is clear what became of a COMMIT that was not answered
    read_s: float = 15  # the same for a read
    load_s: float = 300  # loading a large stream
    cut_grace_s: float = 1  # how long a call may take to end after its session was ended
    close_s: float = 2  # closing the connections to the store
    ready_s: float = 2  # how long /readyz waits for the store

    # The end
    drain_s: float = 20  # from the signal to stop until the end, whatever calls and the store do
    callers_s: float = 5  # of that, at most, for callers that have to send the rest of a request or read an answer
    stop_s: float = 5  # of that, reserved for the last commit and for closing the store


DEFAULT_LIMITS: Final = Limits()
