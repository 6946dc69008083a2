"""`strandline demo`: count windows with an exact watermark and, beside it, with a guessed one.

Four writers write to one stream for half a minute. One is slow, one rests for a while, one is offline and comes
back with what it collected. A Spark job counts the events in windows twice: with the watermark that the writers'
notes make, and with the greatest time seen minus a delay. At the end both counts are compared with the log.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from strandline.errors import StrandlineError
from strandline_demo.errors import InvalidKnob, PartMissing
from strandline_demo.options import Choices, add_knobs, chosen
from strandline_demo.picture import draw
from strandline_demo.processes import Inbox, Interrupted, Parts, signals_to
from strandline_demo.table import render

if TYPE_CHECKING:
    from strandline_demo.run import Result

NEEDED: Final = (
    *("alembic", "fastapi", "msgspec", "sqlalchemy", "uvicorn"),  # the controller's
    *("adbc_driver_sqlite", "pyarrow", "pyspark"),  # the Spark job's
    "matplotlib",
)
LOOK_ROUND_S: Final = 60.0
SIGNALLED: Final = 128  # a shell's exit status for an end by a signal, less the signal


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo with these arguments; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="strandline demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_knobs(parser)
    return run(parser.parse_args(argv))


def run(options: argparse.Namespace) -> int:
    """Runs the demo with options as `add_knobs` makes them; returns the exit status."""
    began = time.monotonic()
    inbox: Inbox = SimpleQueue()
    with signals_to(inbox):
        try:
            choices = chosen(options)
            check_out(choices.out)
            check_needs()
            play(choices, inbox)
        except StrandlineError as error:
            sys.stderr.write(f"strandline demo: {error.detail}\n")
            return 2 if isinstance(error, InvalidKnob) else 1
        except Interrupted as interrupted:
            say("ended early, as you wished; nothing is left running")
            return SIGNALLED + interrupted.number
    say(f"that took {time.monotonic() - began:.0f} s in all")
    return 0


def play(choices: Choices, inbox: Inbox) -> None:
    """One run, its table and its picture."""
    from strandline_demo.run import Run  # after check_needs, since it needs all of that

    with scratch_folder(keep=choices.keep) as folder:
        with Parts(folder, inbox) as parts:
            demo = Run(choices, folder, parts, say)
            result = demo.to_end()
            if choices.keep:
                show(choices, result)
                look_round(parts, demo.address)
        if not choices.keep:
            show(choices, result)


def show(choices: Choices, result: Result) -> None:
    """The table, and the picture."""
    say("")
    say(render(choices.settings, result.exact, result.plain))
    draw(result.scene, choices.out)
    say(f"\npicture: {choices.out.resolve()}")


def look_round(parts: Parts, address: str) -> None:
    """Leaves the controller running until a signal comes. Raises PartFailed where it ends by itself."""
    say(f"the controller is left running for a look round: {address}/streams/demo; Ctrl-C ends it")
    with suppress(Interrupted):
        while True:
            parts.hear(LOOK_ROUND_S)


def check_needs() -> None:
    """Finds out early what is missing. Raises PartMissing, JavaMissing or PythonMismatch."""
    check_packages(NEEDED)
    from spark_integration.environment import check_python, prepare  # they need pyspark

    prepare()
    check_python(os.environ["PYSPARK_PYTHON"])


def check_packages(names: Iterable[str]) -> None:
    """Raises PartMissing for the first one that is not installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise PartMissing(package=name)


def check_out(path: Path) -> None:
    """Finds out early whether the picture can be written. Raises InvalidKnob."""
    folder = path.resolve().parent
    if path.is_dir():
        raise InvalidKnob(knob="out", value=path, wanted="the name of a file, not of a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidKnob(knob="out", value=path, wanted="a file in a folder that is there and can be written to")


@contextmanager
def scratch_folder(*, keep: bool) -> Iterator[Path]:
    """A fresh folder, which is removed at the end unless it is to be kept."""
    folder = Path(tempfile.mkdtemp(prefix="strandline-demo-"))
    try:
        yield folder
    finally:
        if keep:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder)


def say(text: str) -> None:
    """A line for whoever watches, at once, also where the output is a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
