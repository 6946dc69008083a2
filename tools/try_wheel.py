"""Tries the wheel where nothing of the checkout is: in empty environments, for the base, each extra and the quickstart.

    .venv/bin/python -m tools.try_wheel python3.11 python3.13 --extras base,controller

Nothing may be compiled, so every package has to come as a wheel; only pyspark does not, which is Python alone.
Everything runs in the folder of a user who has modules with the names of USERS_OWN. pip fetches packages from where it
is set up to.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
USERS_OWN: Final = ("client", "demo", "logs", "migrations", "status")

# A writer's ten lines, and a reader's: all that the base is for.
WRITE_AND_READ: Final = """
import sys
from reader_client import TimeWindows
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
from writer_client import Writer

url = sys.argv[1]
log = SqliteLog.create("orders.log", segments=1)
with Writer(url, "orders", "till-1", log=log) as writer:
    writer.write([Event(b"an order", segment="0")])
    writer.note_time(1_700_000_000_000)
with TimeWindows(url, "orders") as windows:
    assert windows.get_time_window({"0": 1}).lower == 1_700_000_000_000
"""
# A store goes through the whole history of its schema, and a controller would be served.
MIGRATE: Final = """
import controller.cli.migrate, controller.cli.serve, controller.server
from controller.storage.upgrade import upgrade
from sqlalchemy import create_engine

with create_engine("sqlite://").begin() as connection:
    upgrade(connection)
"""
# What each extra is for, as programs that fail without it.
PROGRAMS: Final = {
    "base": WRITE_AND_READ,
    "cli": "import sys; from controller.cli import main; sys.exit(main(['--help']))",
    "controller": MIGRATE,
    "postgres": "import psycopg; assert psycopg.pq.__impl__ == 'binary'",
    "kafka": "import strandline.logs.kafka, strandline.logs.kafka_reader, confluent_kafka, pyarrow",
    "sqlite": "import strandline.logs.sqlite_reader, adbc_driver_sqlite.dbapi",
    "spark": "import spark_integration, pyspark.sql.connect.client",
    "dashboard": "import controller.dashboard.routes",
    "demo": "import sys; from controller.cli import main; sys.exit(main(['demo', '--spark']))",
}

# The quickstart as one who has installed the wheel does it: the programs of the page, in their order.
QUICKSTART: Final = "quickstart"
PAGE: Final = Path("docs", "quickstart.md")
PHONES: Final = ("phone-1 0 30", "phone-2 0 12", "phone-2 12 30")
WINDOWS: Final = ("12:00:00", "12:00:10", "12:00:20")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pythons", nargs="*", default=[sys.executable], help="which Pythons; this one unless given")
    parser.add_argument("--extras", default=",".join([*PROGRAMS, QUICKSTART]), help="which, with commas between them")
    parser.add_argument("--wheel", type=Path, help="one that was built already")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel: Path = (given.wheel or built(folder)).resolve()
        for python in given.pythons:
            for extra in given.extras.split(","):
                attempt = try_quickstart if extra == QUICKSTART else try_extra
                version = attempt(python, wheel, extra, Path(tempfile.mkdtemp(dir=folder)))
                print(f"{version}, {extra}: works", flush=True)
    return 0


def built(folder: Path) -> Path:
    """The wheel of this checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def try_extra(python: str, wheel: Path, extra: str, folder: Path) -> str:
    """Installs one extra into a new environment and runs its program there; returns the version of Python."""
    environment, work = made(python, wheel, extra, folder), of_a_user(folder)
    (work / "try.py").write_text(PROGRAMS[extra])
    if extra == "base":
        server = made(python, wheel, "controller", folder / "server")
        with served(server, work) as url:
            create(server, work, url, "--segments", "1")
            run(environment / "python", "try.py", url, work=work)
    else:
        run(environment / "python", "try.py", work=work)
    return run(environment / "python", "--version", work=work).strip()


def try_quickstart(python: str, wheel: Path, _: str, folder: Path) -> str:
    """Installs what the quickstart needs into a new environment and follows the page; returns the version of Python."""
    programs, work = made(python, wheel, "dashboard,spark", folder), of_a_user(folder)
    with served(programs, work) as url:
        for name, program in re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", (ROOT / PAGE).read_text(), re.M | re.S):
            (work / name).write_text(program.replace("http://127.0.0.1:8433", url))
        create(programs, work, url, "--segments", "2", "--settings", "min_writers=2")
        for phone in PHONES:
            run(programs / "python", "phone.py", *phone.split(), work=work)
        request = urllib.request.Request(f"{url}/v1/streams/orders/seal", data=b"{}", method="POST")
        urllib.request.urlopen(request).close()
        counted = run(programs / "python", "count.py", work=work)
        if counted.splitlines() != [f"{window} 20 orders" for window in WINDOWS]:
            sys.exit(f"count.py said {counted!r}")
        shown = run(programs / "python", "job.py", work=work)
        if not all(re.search(rf"{window}\|[^|]+\|   20\|", shown) for window in WINDOWS):
            sys.exit(f"job.py said {shown!r}")
    return run(programs / "python", "--version", work=work).strip()


def of_a_user(folder: Path) -> Path:
    """The folder of a user with modules of his own."""
    work = folder / "work"
    work.mkdir()
    for name in USERS_OWN:
        (work / f"{name}.py").write_text("raise SystemExit('this is a module of the user')\n")
    return work


def made(python: str, wheel: Path, extra: str, folder: Path) -> Path:
    """A new environment with the wheel and an extra; the folder of its programs."""
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    programs = folder / "venv" / "bin"
    what = str(wheel) if extra == "base" else f"{wheel}[{extra}]"
    only = ["--only-binary", ":all:", "--no-binary", "pyspark"]
    run(programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *only, what, work=folder)
    return programs


@contextmanager
def served(programs: Path, work: Path) -> Iterator[str]:
    """A controller at a free port."""
    command: list[str | Path] = [programs / "strandline", "serve", "--port", "0"]
    process = subprocess.Popen(command, cwd=work, env=clean(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        output = process.stdout.readline()
        found = re.search(r"http://\S+", output)
        if found is None:
            sys.exit(f"strandline serve said {output!r}")
        yield found[0]
    finally:
        process.terminate()
        process.wait()


def create(programs: Path, work: Path, url: str, *options: str) -> None:
    """Creates the stream `orders`."""
    run(programs / "strandline", "create", "orders", *options, "--controller", url, work=work)


def run(*command: str | Path, work: Path) -> str:
    """Runs a program in a folder; what it prints. If it fails, its messages are shown."""
    done = subprocess.run(command, cwd=work, env=clean(), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def clean() -> dict[str, str]:
    """The environment without what would let a program see the checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "STRANDLINE_"))}


if __name__ == "__main__":
    sys.exit(main())
