"""What tests start as a fork is a process like another one."""

import signal
import tempfile
from pathlib import Path

import pytest

from tests.forks import Fork

TELLS = "import os; print(input(), os.getcwd(), os.environ['WHO'], flush=True); os.write(2, b'bad luck'); os._exit(3)"


def test_a_fork_has_the_folder_and_environment_of_now_and_tells_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for who in ("one", "two"):
        monkeypatch.setenv("WHO", who)
        with tempfile.TemporaryFile("w+") as errors:
            fork = Fork("timeit", ["-n", "1", "-r", "1", TELLS], errors.fileno())
            with fork.stdin, fork.stdout:
                print("hello", file=fork.stdin, flush=True)
                assert fork.stdout.read() == f"hello {tmp_path} {who}\n"
            assert fork.wait(60) == fork.poll() == 3
            errors.seek(0)
            assert errors.read() == "bad luck"


def test_a_killed_fork_tells_by_which_signal_and_takes_no_other() -> None:
    fork = Fork("timeit", ["import signal; print('waiting', flush=True); signal.pause()"])
    with fork.stdin, fork.stdout:
        assert fork.stdout.readline() == "waiting\n"
        assert fork.poll() is None
        fork.kill()
        assert fork.wait(60) == -signal.SIGKILL
    fork.kill()  # as with Popen, of no effect


def test_forks_that_end_at_the_same_moment_are_all_told() -> None:
    for _ in range(10):
        forks = [Fork("timeit", ["-n", "1", "-r", "1", "input()"]) for _ in range(8)]
        for fork in forks:
            fork.stdin.close()
        assert [fork.wait(60) for fork in forks] == [1] * len(forks)  # each found the end of its input
        for fork in forks:
            fork.stdout.close()
