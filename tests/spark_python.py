"""Pythons for Spark to start, which take less than half as long as usual, or next to nothing.

Spark puts its own zip archives and a jar at the head of PYTHONPATH. A Python that it starts compiles all that it
imports from them again. Where pyspark is installed this is for nothing, so those of `spark_python` leave them out.

They still import pyspark, pandas and pyarrow for a second, and a query starts several of them. With
`ready_spark_python` a process that has imported everything is forked instead. What Spark starts then asks for a fork,
lends it what it has open, and ends when that ends; this file is the program of both, so it imports little at its head.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

TYPE_CHECKING = False  # importing it from typing takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

HASH_SEED = "0"  # of Python's hashes, as Spark has it
LENGTH_BYTES = 4
FAILED = 1
LOADED = (
    "pyspark.daemon",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.worker",
    "pandas",
    "spark_integration.mark_source",
    "spark_integration.source",
    "strandline.logs.sqlite_reader",
)


def spark_python(folder: Path, python: str | Path | None = None) -> str:
    """Leaves a program in a folder, for PYSPARK_PYTHON: starts `python`, by default the one that Spark would start."""
    started = str(python or os.environ.get("PYSPARK_PYTHON") or sys.executable)
    program = folder / "python"
    command = shlex.join([started, "-IS", __file__, str(_socket(folder)), started])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    return str(program)


@contextmanager
def ready_spark_python(folder: Path, python: str | Path | None = None) -> Iterator[str]:
    """The same program, whose modules are run by forks while the block lasts; only on Linux."""
    program = spark_python(folder, python)
    if sys.platform != "linux":
        yield program
        return
    started = str(python or os.environ.get("PYSPARK_PYTHON") or sys.executable)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(_socket(folder)))
        listener.listen(100)
        environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED, "OPENBLAS_NUM_THREADS": "1"}  # no threads in a fork
        environment.pop("PYTHONPATH", None)
        forked = subprocess.Popen(
            [started, "-Pu", __file__, str(listener.fileno())],
            stdin=subprocess.PIPE, env=environment, pass_fds=[listener.fileno()],
        )  # fmt: skip
    with forked:  # it ends when its standard input does
        yield program


def _socket(folder: Path) -> Path:
    return folder / "forks"


def ask(forks: str, python: str, arguments: list[str]) -> NoReturn:
    """What Spark starts: asks for a fork that runs a module; anything else it does itself."""
    environment = dict(os.environ)
    path = [each for each in environment.pop("PYTHONPATH", "").split(os.pathsep) if each and not _is_sparks(each)]
    if path:
        environment["PYTHONPATH"] = os.pathsep.join(path)
    connection = socket.socket(socket.AF_UNIX)
    try:
        if arguments[:1] != ["-m"] or environment.get("PYTHONHASHSEED", HASH_SEED) != HASH_SEED:
            raise OSError
        connection.connect(forks)
    except OSError:
        os.execve(python, [python, *arguments], environment)
    request = json.dumps([arguments[1:], environment, os.getcwd()]).encode()
    socket.send_fds(connection, [len(request).to_bytes(LENGTH_BYTES)], [0, 1, 2])
    connection.sendall(request)
    status = connection.recv(1)
    sys.exit(status[0] if status else FAILED)


def _is_sparks(path: str) -> bool:
    name = os.path.basename(path)
    return name == "pyspark.zip" or name.endswith(".jar") or (name.startswith("py4j-") and name.endswith(".zip"))


def serve(listener: socket.socket) -> None:
    """Forks for whoever asks, until its standard input ends."""
    import gc
    import select
    from importlib import import_module

    for name in LOADED:
        with suppress(ModuleNotFoundError):  # an older Spark does not have all of them
            import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _run_asked(connection)
        connection.close()


def _run_asked(connection: socket.socket) -> NoReturn:
    """A fork: does what a Python would that is started with `-m`, and ends with whoever asked for it."""
    import runpy
    import traceback
    import warnings

    status = FAILED
    try:
        length, descriptors, _, _ = socket.recv_fds(connection, LENGTH_BYTES, 3)
        with connection.makefile("rb") as file:
            (module, *arguments), environment, folder = json.loads(file.read(int.from_bytes(length)))
        _end_with(connection)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.path[:0] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        sys.argv[1:] = arguments
        warnings.filterwarnings("ignore", message=".* found in sys.modules", category=RuntimeWarning)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            status = end.code or 0
        else:
            sys.stderr.write(f"{end.code}\n")
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):  # whoever would be told has ended
            sys.stdout.flush()
            sys.stderr.flush()
            connection.send(bytes([status & 0xFF]))
        os._exit(status & 0xFF)


def _end_with(connection: socket.socket) -> None:
    """From now on the system sends this process SIGTERM when the one that asked for it ends."""
    import fcntl

    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(connection, fcntl.F_SETFL, os.O_ASYNC)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [forks, python, *arguments]:
            ask(forks, python, arguments)
        case [descriptor]:
            serve(socket.socket(fileno=int(descriptor)))
