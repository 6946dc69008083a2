"""What the documents' scenarios are told with: short calls over HTTP to a real controller.

Streams, groups and their names belong to one test, while the controller is one for all of them.
"""

from __future__ import annotations

from typing import Any

from tests.served import InProcess

Position = dict[str, int]
Bounds = tuple[int | None, int | None]


class StagedStream:
    """A stream. Marks come for every advance, and its times need not be near the clock, unless a setting says so."""

    def __init__(self, controller: InProcess, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        self.path = f"/v1/streams/{name}"
        self.controller = controller
        body = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None, **settings}
        controller.call("PUT", self.path, body, expect=201)

    # -- writers -------------------------------------------------------------------------------------------------

    def note(self, writer: str, time: int, position: Position, **more: Any) -> Any:
        return self.controller.note(writer, time, position, self.name, **more)

    def note_keys(self, writer: str, times: dict[str, int], position: Position) -> Any:
        body = {"writer": writer, "times": times, "position": position}
        return self.controller.call("POST", f"{self.path}/notes", body)

    def refused(self, expect: int, **note: Any) -> Any:
        """The problem that a note is answered with."""
        return self.controller.call("POST", f"{self.path}/notes", note, expect=expect)

    def tail(self, position: Position, time: int | None = None) -> Any:
        """The log's end, read just now or at a time before."""
        at = self.controller.clock.now if time is None else time
        return self.controller.call("POST", f"{self.path}/tail", {"reporter": "tail", "time": at, "position": position})

    def register(self, writer: str, *keys: str) -> Any:
        return self.controller.call("PUT", f"{self.path}/writers/{writer}", {"keys": list(keys)})

    def idle(self, writer: str) -> Any:
        return self.controller.call("POST", f"{self.path}/writers/{writer}/idle")

    def scale(self, seal: Position, **create: tuple[float, float]) -> Any:
        """Seals segments; the successors are `s3=(0.0, 0.5)`, for segment 3."""
        made = [{"id": name[1:], "low": low, "high": high} for name, (low, high) in create.items()]
        return self.controller.call("POST", f"{self.path}/scale", {"seal": seal, "create": made})

    def seal(self) -> Any:
        return self.controller.call("POST", f"{self.path}/seal")

    # -- readers -------------------------------------------------------------------------------------------------

    def describe(self) -> Any:
        return self.controller.call("GET", self.path)

    def holder(self, key: str = "") -> Any:
        return self.describe()["held_by"][key]

    def marks(self, **query: Any) -> list[dict[str, Any]]:
        return self.controller.marks(self.name, **query)

    def times(self, key: str = "") -> list[int]:
        return [mark["time"] for mark in self.marks(key=key)]

    def window(self, position: Position, key: str = "") -> Any:
        return self.controller.call("POST", f"{self.path}/time-window", {"position": position, "key": key})

    def bounds(self, position: Position, key: str = "") -> Bounds:
        window = self.window(position, key)
        return window["lower"], window["upper"]

    def index(self, segment: str, **query: Any) -> tuple[list[tuple[int, int]], int]:
        """Entries of the time index as (offset, time), and the token to go on with."""
        answer = self.controller.request("GET", f"{self.path}/segments/{segment}/time-index", params=query)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        return [(each["offset"], each["time"]) for each in found["entries"]], found["token"]


class StagedGroup:
    """A reader group over streams of the test. Its readers register when they are first heard of."""

    def __init__(
        self, controller: InProcess, name: str, streams: tuple[StagedStream, ...], settings: dict[str, Any]
    ) -> None:
        self.path = f"/v1/reader-groups/{name}"
        self.controller = controller
        self._epochs: dict[str, int] = {}
        body = {"streams": [stream.name for stream in streams], "reader_timeout_ms": None, **settings}
        controller.call("PUT", self.path, body, expect=201)

    def read(self, reader: str, stream: StagedStream, position: Position) -> Any:
        """A reader has read this far."""
        return self._tell(reader, {stream.name: position})

    def look(self, reader: str) -> Any:
        """What a reader is told that has nothing to report."""
        return self._tell(reader, {})

    def acquire(self, reader: str, most: int) -> Any:
        """The segments that a reader owns after it took free ones."""
        if reader not in self._epochs:
            self.look(reader)
        body = {"epoch": self._epochs[reader], "max": most}
        return self.controller.call("POST", f"{self.path}/readers/{reader}/acquire", body)["owned"]

    def release(self, reader: str, stream: StagedStream, position: Position) -> Any:
        body = {"epoch": self._epochs[reader], "positions": {stream.name: position}}
        return self.controller.call("POST", f"{self.path}/readers/{reader}/release", body)

    def window(self) -> Any:
        return self.controller.call("GET", f"{self.path}/time-window")

    def of(self, stream: StagedStream) -> Any:
        """The group's window in one stream."""
        return self.window()["streams"][stream.name]

    def bounds(self, stream: StagedStream) -> Bounds:
        window = self.of(stream)
        return window["lower"], window["upper"]

    def watermark(self, key: str = "") -> int | None:
        """The coalesced watermark of a key, null where the group has none."""
        time: int | None = self.window()["watermarks"].get(key)
        return time

    def _tell(self, reader: str, positions: dict[str, Position]) -> Any:
        body: dict[str, Any] = {"positions": positions}
        if reader in self._epochs:
            body["epoch"] = self._epochs[reader]
        answer = self.controller.call("PUT", f"{self.path}/readers/{reader}", body)
        self._epochs[reader] = answer["epoch"]
        return answer


class Stage:
    """A controller, and the names that one test uses there."""

    def __init__(self, controller: InProcess, test: str) -> None:
        self.controller = controller
        self._test = test

    @property
    def now(self) -> int:
        """What the controller's clock shows; it goes on when a test says so."""
        return self.controller.clock.now

    def pass_time(self, milliseconds: int) -> None:
        self.controller.pass_time(milliseconds)

    def stream(self, name: str = "s", **settings: Any) -> StagedStream:
        return StagedStream(self.controller, f"{name}-{self._test}", settings)

    def group(self, *streams: StagedStream, name: str = "g", **settings: Any) -> StagedGroup:
        return StagedGroup(self.controller, f"{name}-{self._test}", streams, settings)
