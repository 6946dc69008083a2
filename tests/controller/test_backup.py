"""A backup that was taken under load is restored into a fresh place, served, and answers as the store did."""

from __future__ import annotations

import fcntl
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Executable, delete, update

from controller.cli import main
from controller.cli.check import fault_of
from controller.storage import schema
from controller.storage.database import open_database
from controller.storage.heads import start_over
from tests.readme.pages import blocks_of, commands_of
from tests.served import NOON

CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None}


@pytest.fixture
def database(store_url: str) -> str:
    return store_url


class Load:
    """Writers that note as fast as they are answered until they are told to stop."""

    def __init__(self, url: str) -> None:
        self.answered: dict[str, int] = {}
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(url, f"w{n}")) for n in range(3)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _write(self, url: str, writer: str) -> None:
        with httpx.Client(base_url=url, timeout=30) as client:
            step = 0
            while not self._over.is_set():
                step += 1
                body = {"writer": writer, "time": step, "position": {"0": step, "1": step}}
                assert client.post("/v1/streams/busy/notes", json=body).is_success
                self.answered[writer] = step


@pytest.fixture
def load() -> Iterator[list[Load]]:
    begun: list[Load] = []
    yield begun
    for each in begun:
        each.stop()


def fill(server: Any) -> None:
    """A stream with something of everything, and a group that reads it."""

    def call(method: str, path: str, body: object = None) -> Any:
        answer = server.client.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    call("PUT", "/v1/streams/busy", CONFIG)
    call("PUT", "/v1/streams/s", {**CONFIG, "min_writers": 2})
    for begin in (1, 200):
        notes: list[dict[str, Any]] = []
        for n in range(begin, begin + 199):
            times = {"times": {"": 10 * n, "k": n}, "newest": {"": 10 * n + 5}}
            notes.append({"writer": "a", "position": {"0": n}, **times})
            notes.append({"writer": "b", "position": {"1": n}, "time": 10 * n + 3})
        call("POST", "/v1/streams/s/notes", {"notes": notes})
        call("PUT", "/v1/streams/s/writers/a")
    call("POST", "/v1/streams/s/writers/b/exclude")
    call("POST", "/v1/streams/s/scale", {"seal": {"0": 400}, "create": [{"id": "2", "low": 0, "high": 0.5}]})
    call("POST", "/v1/streams/s/truncate", {"head": {"0": 3, "1": 3}})
    call("PUT", "/v1/reader-groups/g", {"streams": ["s"], "backlog_threshold_ms": 1_000})
    call("PUT", "/v1/reader-groups/g/readers/r", {"positions": {"s": {"0": 300, "1": 250}}})
    call("POST", "/v1/streams/s/notes", {"notes": [{"writer": "a", "time": 1, "position": {}}]})


QUESTIONS = (
    "/v1/streams",
    "/v1/streams/s",
    "/v1/streams/s/writers",
    "/v1/streams/s/marks?limit=1000",
    "/v1/streams/s/marks?limit=1000&key=k",
    "/v1/streams/s/marks/at?time=1234",
    "/v1/streams/s/segments/0/time-index?limit=1000&from_offset=17",
    "/v1/streams/s/journal?limit=1000",
    "/v1/reader-groups/g",
    "/v1/reader-groups/g/journal",
    "/v1/reader-groups/g/time-window",
)
# What an answer says of now, and the epochs, which have to differ. (A journal tells of the restore as well.)
OF_NOW = {"lag_ms", "last_heard_at", "last_heard_ms_ago", "released_in_ms", "last_noted_at", "epoch"}


def everything(server: Any) -> list[Any]:
    """All that is answered about the streams and groups that nobody writes to."""
    found = [server.client.get(path).json() for path in QUESTIONS]
    for position in ({}, {"0": 120, "1": 7}, {"0": 120, "1": 120}, {"2": 0, "0": 400, "1": 390}, {"2": 9, "1": 500}):
        found.append(server.client.post("/v1/streams/s/time-window", json={"position": position}).json())
    return [lasting(each) for each in found]


def lasting(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {name: lasting(value) for name, value in answer.items() if name not in OF_NOW}
    if isinstance(answer, list):
        return [lasting(each) for each in answer if not _is_of_now(each)]
    return answer


def _is_of_now(entry: Any) -> bool:
    """An entry about the restore, or about a hold that had lasted for long when the stream was written next."""
    return isinstance(entry, dict) and entry.get("kind") in ("restored", "holding")


def test_a_backup_taken_under_load_and_restored_answers_as_the_store_did(
    serve: Any, serve_on: Any, load: list[Load], elsewhere: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve()
    fill(server)
    epoch = server.client.put("/v1/streams/s/writers/a").json()["epoch"]
    load.append(Load(server.url))
    while len(load[0].answered) < 3:
        server.client.get("/v1/streams/busy/marks", params={"wait_ms": 1_000})
    before = dict(load[0].answered)

    file = tmp_path / "of-today.backup"
    assert main(["backup", str(file), "--database", server.database]) == 0
    load[0].stop()
    assert main(["restore", str(file), "--database", elsewhere]) == 0

    assert "has 2 streams and 1 reader groups as they were at 20" in capsys.readouterr().out
    restored = serve_on(elsewhere)
    assert everything(restored) == everything(server)
    noted = {each["writer"]: each["times"][""] for each in get(restored, "/v1/streams/busy/writers")["writers"]}
    assert all(before[writer] <= noted[writer] <= load[0].answered[writer] for writer in before)
    kept, live = (all_marks(each) for each in (restored, server))
    assert 0 < len(kept) <= len(live) and live[: len(kept)] == kept
    go_on_where_it_stood(restored, epoch)


def go_on_where_it_stood(restored: Any, epoch: int) -> None:
    """Nobody who registered before goes on, whoever registers again does, and writers of the lost notes repeat them."""
    note = {"writer": "a", "time": 5_000, "position": {"2": 1}}
    refused = restored.client.post("/v1/streams/s/notes", json={**note, "epoch": epoch})
    assert (refused.status_code, refused.json()["code"]) == (409, "fenced")
    report = {"positions": {"s": {"0": 350}}, "epoch": 1}
    assert restored.client.put("/v1/reader-groups/g/readers/r", json=report).json()["code"] == "fenced"

    registered = restored.client.put("/v1/streams/s/writers/a").json()
    assert registered["epoch"] > NOON > epoch
    answer = restored.client.post("/v1/streams/s/notes", json={**note, "epoch": registered["epoch"]})
    assert answer.is_success and answer.json()["late"] is False
    again = restored.client.put("/v1/reader-groups/g/readers/r", json={"positions": {"s": {"0": 350}}}).json()
    assert again["epoch"] > NOON
    lost = {"writer": "w0", "time": 1_000_000, "position": {"0": 1_000_000}}
    assert restored.client.post("/v1/streams/busy/notes", json=lost).is_success


def get(server: Any, path: str) -> Any:
    return server.client.get(path).json()


def all_marks(server: Any) -> list[Any]:
    found: list[Any] = []
    while page := get(server, f"/v1/streams/busy/marks?after={len(found)}&limit=1000")["marks"]:
        found += page
    return found


def test_a_store_restored_by_other_means_is_made_safe(start: Any, database: str) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    epoch = controller.call("PUT", "/v1/streams/s/writers/a")["epoch"]
    controller.note("a", 100, {"0": 5}, epoch=epoch)
    marks = controller.marks()
    epochs = [epoch]

    for _ in range(2):  # the same epochs are not given out by another restore either
        controller.__exit__(None, None, None)
        assert main(["restore", "--database", database]) == 0
        controller = start()
        assert controller.marks() == marks
        body = {"writer": "a", "time": 200, "position": {"0": 6}, "epoch": epochs[-1]}
        assert controller.call("POST", "/v1/streams/s/notes", body, expect=409)["code"] == "fenced"
        epochs.append(controller.call("PUT", "/v1/streams/s/writers/a")["epoch"])
        controller = start(after_ms=60_000)  # and once is enough
        assert controller.call("PUT", "/v1/streams/s/writers/a")["epoch"] == epochs[-1] + 1
        epochs[-1] += 1

    assert epochs == sorted(set(epochs))
    told = controller.call("GET", "/v1/streams/s/journal")["entries"]
    assert [each["kind"] for each in told if each["topic"] == "action"] == ["created", "restored", "restored"]


def test_no_epoch_is_given_out_twice_whatever_the_backup_had(start: Any, database: str) -> None:
    given: list[tuple[int, int]] = []

    def register() -> None:
        controller = start()
        controller.call("PUT", "/v1/streams/s", CONFIG)
        controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
        for _ in range(3):
            writer = controller.call("PUT", "/v1/streams/s/writers/a")["epoch"]
            reader = controller.call("PUT", "/v1/reader-groups/g/readers/r")["epoch"]
            given.append((writer, reader))
        controller.__exit__(None, None, None)

    register()
    had_neither = [delete(table) for table in (schema.head, schema.stream, schema.reader_group)]
    had_no_epoch = [update(table).values(epochs=0) for table in (schema.stream, schema.reader_group)]
    backups: tuple[Sequence[Executable], ...] = (had_no_epoch, had_no_epoch, had_neither)
    for hours, restored in enumerate(backups):
        with open_database(database) as store, store.writer.begin():
            start_over(store.writer, NOON + hours * 3_600_000)
            for statement in restored:
                store.writer.execute(statement)
        register()

    writers, readers = zip(*given, strict=True)
    assert list(writers) == sorted(set(writers)) and list(readers) == sorted(set(readers))


def test_a_restore_writes_over_nothing_and_not_while_a_controller_serves(
    serve: Any, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, file = serve(), tmp_path / "kept.backup"
    assert main(["backup", str(file), "--database", database]) == 0
    content = file.read_bytes()
    for words, said in (
        (["backup", str(file)], "exists already"),
        (["backup", "."], "it is a folder"),
        (["restore"], "another controller"),
    ):
        assert main([*words, "--database", database]) == 1
        assert said in capsys.readouterr().err
    assert file.read_bytes() == content
    server.stop()
    assert main(["restore", str(file), "--database", database]) == 1
    assert "exists already" in capsys.readouterr().err


def test_what_is_no_backup_is_refused_and_leaves_nothing_behind(
    database: str, elsewhere: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, other = tmp_path / "text", tmp_path / "other.db"
    text.write_text("no database at all, but long enough to be looked at" * 100)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE song (name TEXT)")
    connection.close()
    for file in (text, other, tmp_path / "nowhere"):
        assert main(["restore", str(file), "--database", elsewhere]) == 1
        assert capsys.readouterr().err.startswith("strandline restore: ")
    assert main(["restore", "--database", elsewhere]) == 1
    left = {each.name for each in tmp_path.iterdir()} - {"text", "other.db", "elsewhere.db.lock"}
    assert left == set()


def test_the_pages_commands_do_what_it_says(
    start: Any, database: str, elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command lines as they stand, but for the names of the databases."""
    monkeypatch.chdir(tmp_path)
    begin = database.partition(":")[0]
    blocks = blocks_of("docs/how-to/backup.md")
    lines = [line.split() for block in blocks for line in commands_of(block.text)]
    backups, restores, in_place = (
        [words for words in lines if words[1] == verb and (words[2] == "--database") is bare]
        for verb, bare in (("backup", False), ("restore", False), ("restore", True))
    )
    assert len(lines) == len(backups) + len(restores) + len(in_place)
    start().call("PUT", "/v1/streams/s", CONFIG)
    for (_, *words, url), store in ((pick(backups, begin), database), (pick(restores, begin), elsewhere)):
        assert url.startswith(begin) and main([*words, store]) == 0
    (_, *words, _) = in_place[0]
    assert main([*words, elsewhere]) == 0


def pick(lines: list[list[str]], begin: str) -> list[str]:
    """The line for this kind of store."""
    (found,) = [words for words in lines if words[-1].startswith(begin)]
    return found


def test_a_backup_of_an_sqlite_store_is_not_served_by_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, file = str(tmp_path / "store.db"), str(tmp_path / "store.backup")
    assert main(["migrate", "--database", store]) == 0
    assert main(["backup", file, "--database", store]) == 0
    assert main(["serve", "--port", "0", "--database", file]) == 1
    assert f"strandline restore {file}" in capsys.readouterr().err


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "store.db")
    assert main(["migrate", "--database", path]) == 0
    return path


@pytest.mark.parametrize("left", ["-wal", "-journal"])
@pytest.mark.parametrize("made", ["a restored store", "a backup", "an empty store", "an empty store by a link"])
def test_what_sqlite_left_beside_an_earlier_file_is_neither_put_over_the_new_one_nor_removed(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, left: str
) -> None:
    kept, again = tmp_path / "kept.backup", str(tmp_path / "again")
    assert main(["backup", str(kept), "--database", store]) == 0
    words = {
        "a restored store": ["restore", str(kept), "--database", again],
        "a backup": ["backup", again, "--database", store],
        "an empty store": ["migrate", "--database", again],
        "an empty store by a link": ["migrate", "--database", str(tmp_path / "link")],
    }[made]
    (tmp_path / "link").symlink_to(again)
    beside = Path(again + left)
    beside.write_bytes(b"of the store before")
    assert main(words) == 1
    assert f"{beside} belongs to an earlier {again}" in capsys.readouterr().err
    assert beside.read_bytes() == b"of the store before" and not Path(again).exists()
    beside.write_bytes(b"")  # as a store leaves it that ended in order
    assert main(words) == 0


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (None, "schema is not Strandline’s"),
        ("CREATE TABLE customers (name text)", "another application (its tables: customers)"),
    ],
    ids=["empty", "foreign"],
)
def test_a_database_that_is_no_store_gets_no_backup(
    postgres: Any, postgres_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str | None, told: str
) -> None:
    if made is not None:
        postgres.execute(made, postgres_url)
    assert main(["backup", str(tmp_path / "kept"), "--database", postgres_url]) == 1
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_backup_under_way_is_left_alone_and_a_killed_one_is_replaced(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kept.backup"
    part = file.with_name("kept.backup.part")
    part.write_bytes(b"what another attempt has written so far" * 1_000)
    with part.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert main(["backup", str(file), "--database", store]) == 1
        assert f"another backup or restore is making {file}" in capsys.readouterr().err
        assert part.exists() and not file.exists()
    assert main(["backup", str(file), "--database", store]) == 0
    assert not part.exists() and fault_of(str(file)) is None
