"""The processes of the demo are heard, and none outlives it, however it or they end."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from strandline_demo import processes
from strandline_demo.errors import PartFailed
from strandline_demo.messages import Wrote
from strandline_demo.processes import Ended, Heard, Inbox, Interrupted, Parts, Said, is_free, signals_to

MakeModule = Callable[[str, str], str]


@pytest.fixture
def module(tmp_path: Path) -> MakeModule:
    """Makes a module that a part can run."""

    def make(name: str, source: str) -> str:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        return name

    return make


def parts_in(folder: Path, **settings: str) -> Parts:
    """Parts that find the modules in a folder, and can be told by it."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(folder), **settings}
    return Parts(folder, SimpleQueue(), environment=environment, patience_s=1)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    with parts_in(tmp_path, STRANDLINE_DATABASE="the user's own") as made:
        yield made


def hear_until(parts: Parts, wanted: type[Heard]) -> list[Heard]:
    """Everything that is heard, up to the first of a kind."""
    found: list[Heard] = []
    while not (found and isinstance(found[-1], wanted)):
        heard = parts.hear(30)
        assert heard is not None, found
        found.append(heard)
    return found


WAITS = """
    import time
    print("waiting", flush=True)
    time.sleep(600)
"""

# A process that does not end when it is asked to, with a child in a group of its own that does not either.
STUBBORN = """
    import signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    source = "import time; print('waiting', flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", source], process_group=0)
    time.sleep(600)
"""


def test_messages_and_other_lines_are_heard_in_order_and_then_the_end(parts: Parts, module: MakeModule) -> None:
    parts.start(
        "talker",
        module(
            "talks",
            """
            import sys
            print("hello", *sys.argv[1:])
            print('{"kind": "Wrote", "writer": "x", "total": 3}')
            """,
        ),
        "you",
    )
    assert hear_until(parts, Ended) == [Said("talker", "hello you"), Wrote("x", 3), Ended("talker", 0)]


def test_a_part_that_fails_is_named_with_its_last_words(parts: Parts, module: MakeModule) -> None:
    parts.start("unlucky", module("fails", "raise SystemExit('the disk is full')"))
    with pytest.raises(PartFailed, match=r"'unlucky' .* status 1; it said last:\nthe disk is full") as failed:
        hear_until(parts, Ended)
    assert failed.value.exit_status == 1


def test_nothing_said_in_time_is_none(parts: Parts, module: MakeModule) -> None:
    parts.start("quiet", module("waits", WAITS))
    hear_until(parts, Said)
    assert parts.hear(0) is None


def test_a_part_has_no_terminal_of_ours_and_none_of_our_settings(parts: Parts, module: MakeModule) -> None:
    source = """
        import os, sys
        print(os.getsid(0) == os.getpid(), sys.stdin.read() == "", "STRANDLINE_DATABASE" in os.environ)
    """
    parts.start("apart", module("apart", source))
    assert hear_until(parts, Said) == [Said("apart", "True True False")]


@pytest.mark.parametrize(("source", "processes_there"), [(WAITS, 1), (STUBBORN, 2)])
def test_at_the_end_no_process_of_a_part_is_left(
    tmp_path: Path, module: MakeModule, watch: Any, source: str, processes_there: int
) -> None:
    with parts_in(tmp_path) as parts:
        parts.start("lasting", module("lasts", source))
        hear_until(parts, Said)
        assert len(watch.belonging_to(tmp_path)) == processes_there
    assert watch.belonging_to(tmp_path) == {}


def test_an_end_after_an_error_leaves_nothing_either(tmp_path: Path, module: MakeModule, watch: Any) -> None:
    with pytest.raises(PartFailed), parts_in(tmp_path) as parts:
        parts.start("lasting", module("waits", WAITS))
        hear_until(parts, Said)
        assert len(watch.belonging_to(tmp_path)) == 1
        parts.start("unlucky", module("fails", "raise SystemExit(3)"))
        hear_until(parts, Ended)
    assert watch.belonging_to(tmp_path) == {}


KILLED = """
    import sys, time
    from pathlib import Path
    from queue import SimpleQueue
    from strandline_demo.processes import Parts, Said
    with Parts(Path(sys.argv[1]), SimpleQueue()) as parts:
        part = parts.start("lasting", "waits")
        while not isinstance(parts.hear(30), Said):
            pass
        print(part.process.pid, flush=True)
        time.sleep(600)
"""


def test_a_part_ends_when_the_process_that_started_it_is_killed(tmp_path: Path, module: MakeModule, watch: Any) -> None:
    module("waits", WAITS)
    search = os.pathsep.join([str(processes.PACKAGES), str(tmp_path)])
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)],
        stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": search, "TMPDIR": str(tmp_path)},
    ) as killed:  # fmt: skip
        assert killed.stdout is not None
        pid = int(killed.stdout.readline())
        assert len(watch.belonging_to(tmp_path)) == 2
        killed.kill()
    watch.await_end(pid)
    assert watch.belonging_to(tmp_path) == {}


@pytest.fixture
def signal_handlers() -> Iterator[None]:
    """Has the handlers at the end be those of the beginning."""
    before = {number: signal.getsignal(number) for number in processes.STOPPING_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signal_handlers")
def test_a_signal_is_heard_at_once_and_from_then_on_and_another_one_changes_nothing(tmp_path: Path) -> None:
    inbox: Inbox = SimpleQueue()
    with signals_to(inbox):
        with Parts(tmp_path, inbox) as parts:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGHUP)).start()
            for _ in range(2):
                with pytest.raises(Interrupted) as interrupted:
                    parts.hear(60)
                assert interrupted.value.number == signal.SIGHUP
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("signal_handlers")
def test_without_a_signal_the_handlers_are_what_they_were() -> None:
    before = [signal.getsignal(number) for number in processes.STOPPING_SIGNALS]
    with signals_to(SimpleQueue()):
        assert signal.getsignal(signal.SIGINT) not in before
    assert [signal.getsignal(number) for number in processes.STOPPING_SIGNALS] == before


def test_a_port_that_someone_listens_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)
