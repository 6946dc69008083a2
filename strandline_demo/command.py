"""`strandline demo`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import click
from click import IntRange

from controller.cli.options import option
from controller.terminal import Failure
from strandline.errors import StrandlineError, not_installed
from strandline_demo.world import DemoSettings

PICTURE: Final = "strandline-demo.png"
NEEDED: Final = {  # beside the command line itself, by the extras that bring them
    "dashboard,sqlite": ("uvicorn", "jinja2", "adbc_driver_sqlite", "pyarrow"),
    "demo": ("uvicorn", "jinja2", "adbc_driver_sqlite", "pyarrow", "pyspark", "matplotlib"),
}


@click.command
@option("--spark", is_flag=True, help="run real Spark, with an exact and a plain watermark; it needs Java")
@option(
    "--duration",
    type=IntRange(12, 600),
    metavar="S",
    show_default="18, with --spark 30",
    help="seconds that events happen for",
)
@option(
    "--outage",
    type=IntRange(0, 594),
    metavar="S",
    show_default="8, with --spark 10",
    help="seconds that the offline writer is away",
)
@option(
    "--delay",
    type=IntRange(0, 60),
    default=5,
    metavar="S",
    help="seconds of delay that a guessed watermark has; without --spark also half and twice of it",
)
@option("--rate", type=IntRange(1, 5_000), default=200, help="events a second that each of the four writers gets")
@option(
    "--seed",
    type=IntRange(0, 2**31 - 1),
    default=1,
    help="another seed is another world; the same one the same events",
)
@option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    show_default=PICTURE,
    help="where the picture of --spark goes (PNG)",
)
@option(
    "--keep", is_flag=True, help="leave the controller running for a look round, and keep log, store and all output"
)
def command(
    spark: bool,
    duration: int | None,
    outage: int | None,
    delay: int,
    rate: int,
    seed: int,
    out: Path | None,
    keep: bool,
) -> None:
    """Show the main job end to end, in half a minute.

    Four writers note their times, one of them is offline for a while, and windows close exactly, beside what a
    watermark with a delay would have lost. It exits with 1 if a window lacks an event.
    """
    duration = duration or (30 if spark else 18)
    if outage is None:
        outage = min(10 if spark else 8, duration - 6)
    if outage > duration - 6:  # there is a time before and after it
        raise Failure(f"--outage cannot be {outage}: it is at most --duration less 6 seconds", status=2)
    if out is not None and not spark:
        raise Failure("--out is where the picture of --spark goes: give --spark as well", status=2)
    out = out or Path(PICTURE)
    if spark and not can_be_written(out):
        raise Failure(f"--out cannot be {out}: name a file in a folder that can be written to", status=2)
    check_installed("demo" if spark else "dashboard,sqlite")
    settings = DemoSettings(duration * 1000, outage * 1000, delay * 1000, rate, seed)
    try:
        if spark:
            from strandline_demo.spark_run import SparkRun

            SparkRun.play(settings, keep=keep, out=out)
        else:
            from strandline_demo.plain_run import PlainRun

            PlainRun.play(settings, keep=keep)
    except StrandlineError as error:
        raise Failure(error.detail) from error


def check_installed(extras: str) -> None:
    """Raises Failure for the first package that is missing of what these extras bring, before anything is started."""
    for name in NEEDED[extras]:
        try:
            found = find_spec(name) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            raise Failure(f"{name} is {not_installed(extras)}")


def can_be_written(file: Path) -> bool:
    """Whether a file can be made or overwritten there. It tries: what the mode of a folder allows, /proc refuses."""
    if file.exists():
        return file.is_file() and os.access(file, os.W_OK)
    try:
        with TemporaryFile(dir=file.parent):
            return True
    except OSError:
        return False
