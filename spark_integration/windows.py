"""Where the source gets its time windows: a narrow seam, and the controller behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from spark_integration.errors import NoWindow
from strandline.errors import StrandlineError, Unavailable, UnknownSegment
from strandline.limits import WINDOW_ATTEMPT_MS, WINDOW_FIRST_PAUSE_MS, WINDOW_PAUSE_BOUND_MS
from strandline.window import TimeWindow

if TYPE_CHECKING:
    from strandline.protocol.transport import Seams, Transport


class WindowSource(Protocol):
    """Gives the time window of a position. One thread at a time."""

    def time_window(self, position: Mapping[str, int]) -> TimeWindow: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """Whom to ask for what, and for how long. Plain data, so it can travel."""

    controller: str
    stream: str
    key: str
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    ca_file: str | None = None
    wait_ms: int


class ControllerWindows:
    """Asks the controller until it answers or `wait_ms` have passed: asking again changes nothing."""

    def __init__(
        self, settings: WindowSettings, *, transport: Transport | None = None, seams: Seams | None = None
    ) -> None:
        # Executors import this module to unpickle the reader and never ask: they are spared the HTTP client.
        from reader_client.windows import TimeWindows
        from strandline.protocol.attempts import Patience
        from strandline.protocol.transport import Connection, Seams

        self._settings = settings
        self._seams = Seams() if seams is None else seams
        # One attempt a call. How often to ask is decided here, since there is more to wait for than an answer.
        patience = Patience(attempts=1, attempt_ms=WINDOW_ATTEMPT_MS, deadline_ms=WINDOW_ATTEMPT_MS)
        self._connection = Connection(
            settings.controller,
            token=settings.token,
            token_file=settings.token_file,
            ca_file=settings.ca_file,
            patience=patience,
            transport=transport,
            seams=seams,
        )
        self._windows = TimeWindows(self._connection, settings.stream)

    def time_window(self, position: Mapping[str, int]) -> TimeWindow:
        """The window. Raises NoWindow after `wait_ms`, and what waiting cannot mend (a Refused) at once."""
        now_ms = self._seams.now_ms
        started_ms = now_ms()
        pause_ms = WINDOW_FIRST_PAUSE_MS
        while True:
            try:
                return self._windows.get_time_window(position, self._settings.key)
            except StrandlineError as error:
                if not _may_pass(error):
                    raise
                waited_ms = now_ms() - started_ms
                left_ms = self._settings.wait_ms - waited_ms
                if left_ms <= 0:
                    raise NoWindow(
                        controller=self._settings.controller, waited_ms=round(waited_ms), reason=str(error)
                    ) from error
            self._seams.sleep(min(pause_ms * (0.5 + 0.5 * self._seams.random()), left_ms) / 1000)
            pause_ms = min(pause_ms * 2, WINDOW_PAUSE_BOUND_MS)

    def close(self) -> None:
        self._connection.close()


def _may_pass(error: StrandlineError) -> bool:
    """Whether it may be otherwise in a moment.

    A segment that the log has and the controller does not is one of these: the log was scaled just now, and
    who did it has yet to tell the controller.
    """
    from strandline.protocol.errors import Undecided

    return isinstance(error, Unavailable | Undecided | UnknownSegment)
