"""A writer's process, on a real log and with a real `Writer`: what it notes is true, whenever it comes to it."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from strandline.client.calls import Request, Response
from strandline.client.http import Connection
from strandline.client.retry import Outcome
from strandline.logs.sqlite import SqliteLog
from strandline_demo.messages import Left, Message, Registered, Rested, Returned, Vanished, Wrote
from strandline_demo.settings import DemoSettings
from strandline_demo.world import Role, happenings, steps, time_of
from strandline_demo.writer import WriterPart, WriterRun
from writer_client import Writer

START_MS = 1_700_000_000_000
SETTINGS = DemoSettings(rate=20, duration_ms=12_000, outage_ms=5_000, skew_ms=2_000)


class FakeClock:
    """A clock that jumps to the moment that is waited for, and further by `held_up_ms` each time."""

    def __init__(self, held_up_ms: int = 0) -> None:
        self.time_ms = START_MS - 1_000
        self._held_up_ms = held_up_ms

    def now_ms(self) -> int:
        return self.time_ms

    def wait_until(self, moment_ms: int) -> None:
        self.time_ms = max(self.time_ms, moment_ms) + self._held_up_ms


class Controller:
    """Answers as the controller does, and keeps the notes with what the log held at each."""

    def __init__(self, log: SqliteLog, floor: int | None) -> None:
        self.notes: list[tuple[int, dict[str, int], dict[str, int]]] = []
        self.calls: list[str] = []
        self._log = log
        self._floor = floor

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        self.calls.append(request.name)
        answer: dict[str, Any] = {}
        if request.method == "PUT":
            answer = {"epoch": 1, "floor": self._floor, "floors": {"": self._floor}}
        elif request.path.endswith("/notes"):
            body = request.body or {}
            self.notes.append((int(body["time"]), dict(body["position"]), self._log.end_offsets()))
            answer = {"late": False, "floor": None, "marks": []}
        return Response(200, {}, json.dumps(answer).encode())

    def close(self) -> None:
        pass


class Stage:
    """One writer and its surroundings, run to the end."""

    def __init__(self, folder: Path, role: Role, *, floor: int | None = None, held_up_ms: int = 0) -> None:
        self.told: list[Message] = []
        path = folder / "events.db"
        with SqliteLog.create(path, 3) as log:
            self.controller = Controller(log, floor)
            with Connection("http://127.0.0.1:1", transport=self.controller) as connection:
                writer = Writer(connection, "demo", role, log=log)
                clock = FakeClock(held_up_ms)
                WriterRun(writer, role, START_MS, self.told.append, clock).run(steps(SETTINGS, role))
            self.ends = log.end_offsets()
        self.times = read_times(path, self.ends)

    def of_kind(self, kind: type[Message]) -> list[Any]:
        return [message for message in self.told if type(message) is kind]


def read_times(path: Path, ends: dict[str, int]) -> dict[str, list[int]]:
    from strandline.logs.sqlite_reader import SqliteLogReader

    with SqliteLogReader(path) as log:
        return {
            segment: [time_of(row.value or b"") for row in log.rows(segment, 0, end)] for segment, end in ends.items()
        }


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("held_up_ms", [0, 700])
def test_every_event_older_than_a_note_lies_below_its_position(tmp_path: Path, role: Role, held_up_ms: int) -> None:
    stage = Stage(tmp_path, role, held_up_ms=held_up_ms)
    assert len(stage.controller.notes) > 20
    for time, position, ends in stage.controller.notes:
        for segment, times in stage.times.items():
            assert position.get(segment, 0) <= ends[segment]
            assert all(later >= time for later in times[position.get(segment, 0) :])


@pytest.mark.parametrize("role", Role)
def test_all_that_happened_is_in_the_log_and_told(tmp_path: Path, role: Role) -> None:
    stage = Stage(tmp_path, role)
    written = sorted(time for times in stage.times.values() for time in times)
    assert written == [START_MS + event.time_ms for event in happenings(SETTINGS, role)]
    assert stage.of_kind(Wrote)[-1] == Wrote(role, len(written))
    assert stage.told[-1] == Left(role, 0)
    assert stage.controller.calls[-1].startswith("DELETE ")


def test_the_offline_writer_calls_nobody_during_its_outage_and_tells_when_it_was(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Role.OFFLINE)
    (gone,), (back,) = stage.of_kind(Vanished), stage.of_kind(Returned)
    assert back.at_ms - gone.at_ms == SETTINGS.outage_ms
    assert back.backlog >= 90
    noted = [time for time, _, _ in stage.controller.notes]
    assert [later - time for time, later in pairwise(noted) if later - time > 1_000] == [5_000]


def test_the_idle_writer_says_so_and_registers_before_it_writes_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Role.IDLE)
    kinds = [type(message) for message in stage.told if not isinstance(message, Wrote)]
    assert kinds == [Registered, Rested, Registered, Left]
    assert stage.controller.calls.count("POST /v1/streams/demo/writers/idle/idle") == 1
    assert stage.controller.calls.count("PUT /v1/streams/demo/writers/idle") == 2


def test_events_below_the_floor_are_left_out_and_no_note_is_below_it(tmp_path: Path) -> None:
    floor = START_MS + 3_000
    stage = Stage(tmp_path, Role.STEADY, floor=floor)
    left_out = sum(START_MS + event.time_ms < floor for event in happenings(SETTINGS, Role.STEADY))
    assert left_out > 0
    assert stage.told[-1] == Left(Role.STEADY, left_out)
    assert min(time for times in stage.times.values() for time in times) >= floor
    assert min(time for time, _, _ in stage.controller.notes) >= floor


def test_what_a_writer_is_told_survives_its_command_line() -> None:
    part = WriterPart(
        role=Role.SLOW, controller="http://127.0.0.1:1", stream="demo", path="x", start_ms=1, settings=SETTINGS
    )
    assert WriterPart.from_json(part.to_json()) == part
