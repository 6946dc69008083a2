"""A writer that registers again trusts nothing that it remembers: other processes of its name, operators, a restore or
a stream made anew may have changed its log, its position and its memo."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.storage.backup import back_up, restore
from strandline.client import calls
from strandline.client.http import Connection
from strandline.errors import ControllerAway, Fenced, TimeWentBack
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from strandline.paced_log import OF_THE_PROCESS
from strandline.testing import InProcessController
from writer_client import BackgroundWriter, Writer

OpenLog = Callable[[], SqliteLog]


def event(segment: str, time: int) -> list[Event]:
    return [Event(b"%d" % time, segment=segment)]


def note(writer: Any, time: int) -> None:
    writer.note_time(time)
    if isinstance(writer, BackgroundWriter):
        assert writer.wait_until_answered()


def killed_after_writing(controller: Any, stream: str, log: SqliteLog, segment: str, time: int) -> None:
    """Another process of the name w1 registers, writes and is killed."""
    with Connection(controller.url) as connection:
        Writer(connection, stream, "w1", log=log).write(event(segment, time))


def last_mark(controller: Any, stream: str, time: int) -> Any:
    """The mark that another writer's note makes, once no other counts."""
    with Connection(controller.url) as connection:
        other = Writer(connection, stream, "other")
        other.note_time(time, {})
    mark = controller.marks(stream)[-1]
    assert mark.time == time and mark.complete
    return mark


@pytest.mark.parametrize("how", ["idle", "fenced"])
def test_each_registration_looks_for_what_another_process_of_the_name_wrote(
    controller: Any, make_any: Any, open_log: OpenLog, how: str
) -> None:
    stream = controller.stream()
    writer = make_any(stream, log=open_log())
    writer.write(event("0", 1))
    note(writer, 2)
    if how == "idle":
        writer.idle()
    killed_after_writing(controller, stream, open_log(), "1", 50)
    if how == "fenced":
        with pytest.raises(Fenced):
            note(writer, 60)
            writer.write(event("0", 60))
        writer.register()
    writer.write(event("0", 100))
    note(writer, 100)
    assert controller.marks(stream)[-1].cut == {"0": 2, "1": 1}
    writer.idle()
    killed_after_writing(controller, stream, open_log(), "2", 150)
    writer.register()
    writer.idle()  # without any work of its own
    assert last_mark(controller, stream, 200).cut == {"0": 2, "1": 1, "2": 1}


@pytest.mark.parametrize("enters", [True, False])
@pytest.mark.parametrize("leaving", ["idle", "close"])
def test_a_process_without_work_covers_what_an_earlier_one_wrote_and_never_noted(
    controller: Any, make_any: Any, open_log: OpenLog, leaving: str, enters: bool
) -> None:
    stream = controller.stream()
    killed_after_writing(controller, stream, open_log(), "0", 50)
    writer = make_any(stream, log=open_log(), leaving=leaving)
    if enters or isinstance(writer, BackgroundWriter):  # which has nothing to close before it registers
        with writer:
            pass
    else:
        getattr(writer, leaving)()
    assert last_mark(controller, stream, 100).cut == {"0": 1}


def recreate(controller: InProcessController) -> None:
    with controller.connection() as connection:
        connection.run(calls.delete_stream("s"))
    controller.create_stream("s", segments=3)


def go_back(controller: InProcessController, backup: Path) -> None:
    with controller.stopped():
        for end in ("", "-wal", "-shm"):
            Path(f"{controller.database}{end}").unlink(missing_ok=True)
        restore(str(controller.database), backup, controller.clock.now)


@pytest.mark.parametrize("end", ["idle", "close"])
@pytest.mark.parametrize("how", ["restored", "recreated"])
@pytest.mark.parametrize("with_log", [True, False])
def test_a_writer_notes_its_position_again_where_the_controller_has_lost_it(
    open_log: OpenLog, tmp_path: Path, how: str, end: str, with_log: bool
) -> None:
    with InProcessController() as controller, controller.connection() as connection:
        controller.create_stream("s", segments=3)
        log = open_log()
        writer = Writer(connection, "s", "w1", log=log if with_log else None)
        backup = tmp_path / "backup.db"

        def write_and_note(written: int, time: int) -> None:
            log.append(event("0", written))
            writer.note_time(time, {"0": log.end_offsets()["0"]})

        write_and_note(5, 10)
        back_up(str(controller.database), backup)
        write_and_note(20, 40)
        recreate(controller) if how == "recreated" else go_back(controller, backup)
        with pytest.raises(Fenced):
            writer.note_time(45, {"0": 2})
        writer.register()
        getattr(writer, end)()
        with controller.connection() as another, Writer(another, "s", "other") as other:
            assert other.note_time(100, {}).marks[-1].cut == {"0": 2}


class TestMemos:
    """The time of a commit is noted by the next process, in the life of the name in which it was committed."""

    @pytest.fixture
    def stream(self, controller: Any, open_log: OpenLog) -> str:
        """A stream whose writer w1 has committed with the time 100, while time stands at 50."""
        name: str = controller.stream()
        with Connection(controller.url) as connection:
            Writer(connection, name, "other").note_time(50, {})
            with Writer(connection, name, "w1", log=open_log()) as first, first.begin() as transaction:
                transaction.write(event("0", 99))
                transaction.commit(100)
        return name

    @pytest.mark.parametrize("where", ["closed by another process", "closed by an operator", "another stream"])
    def test_a_commit_before_the_name_was_closed_or_in_another_stream_over_the_log_is_not_noted(
        self, controller: Any, make_any: Any, open_log: OpenLog, stream: str, where: str
    ) -> None:
        if where == "another stream":
            stream = controller.stream()
        elif where == "closed by an operator":
            controller.run(calls.close(stream, "w1"))
        else:
            with make_any(stream, log=open_log(), leaving="close"):
                pass
            assert open_log().memo("w1") == ""
        writer = make_any(stream, log=open_log())
        writer.register()
        assert (writer.floors, writer.repaired) == ({"": None if where == "another stream" else 50}, None)

    def test_a_commit_of_another_process_is_noted_by_a_writer_that_registers_again(
        self, controller: Any, make_any: Any, open_log: OpenLog
    ) -> None:
        stream = controller.stream()
        writer = make_any(stream, log=open_log())
        note(writer, 10)
        writer.idle()
        commit_without_note(controller, stream, open_log(), 100)
        writer.write(event("0", 100))
        assert writer.floors == {"": 100}
        assert controller.marks(stream)[-1].time == 100

    def test_the_floor_covers_what_registering_notes(self, controller: Any, make_any: Any, open_log: OpenLog) -> None:
        stream = controller.stream()
        commit_without_note(controller, stream, open_log(), 100)
        writer = make_any(stream, log=open_log())
        assert writer.register().floors == writer.floors == {"": 100}
        writer.write(event("0", 60), newest=60)
        assert writer.status().late_events == 1

    def test_a_time_that_is_owed_refuses_a_lesser_one(
        self, controller: Any, make_writer: Any, wire: Any, open_log: OpenLog
    ) -> None:
        stream = controller.stream()
        commit_without_note(controller, stream, open_log(), 100)
        wire.faults += ["", *["away"] * 200]
        writer = make_writer(stream, log=open_log(), wire=wire)
        writer.register()
        assert isinstance(writer.repaired, ControllerAway)
        assert writer.floors == {"": 100}
        wire.faults.clear()
        with pytest.raises(TimeWentBack, match="60"):
            writer.note_time(60)
        writer.note_time(120)
        assert controller.marks(stream)[-1].time == 120


def commit_without_note(controller: Any, stream: str, log: SqliteLog, time: int) -> None:
    """A process of the name w1 commits, and is killed before its note arrives."""
    with Connection(controller.url) as connection:
        writer = Writer(connection, stream, "w1", log=log)
        transaction = writer.begin()
        transaction.write(event("0", time - 1))
        writer._commit(transaction._begun, {"": time}, notes=False)


def test_newest_goes_on_after_going_idle_alone_and_not_after_another_process_wrote(
    controller: Any, make_any: Any, open_log: OpenLog, caplog: pytest.LogCaptureFixture
) -> None:
    OF_THE_PROCESS.refill()
    stream = controller.stream()
    writer = make_any(stream, log=open_log())
    for time in (10, 20):
        writer.write(event("0", time), newest=time)
        note(writer, time + 1)
        writer.idle()
    assert controller.marks(stream)[-1].newest == 20
    killed_after_writing(controller, stream, open_log(), "0", 500)
    with caplog.at_level(logging.WARNING):
        for time in (600, 700):
            writer.write(event("0", time), newest=time)
            note(writer, time + 1)
    assert controller.marks(stream)[-1].newest is None
    said = [record.message for record in caplog.records if "newest" in record.message]
    assert len(said) == 1 and "events of other processes" in said[0]
