"""`strandline demo`."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile

import click

from controller.cli.options import Whole, option
from controller.terminal import Failure
from strandline.demo.world import DemoSettings
from strandline.errors import StrandlineError, not_installed


@click.command
@option("--duration", type=Whole(12, 600), default=30, metavar="S", help="seconds that events happen for")
@option("--outage", type=Whole(0, 594), default=10, metavar="S", help="seconds that the offline writer is away")
@option(
    "--delay", type=Whole(0, 60), default=5, metavar="S", help="seconds of delay that the plain withWatermark is given"
)
@option("--rate", type=Whole(1, 5_000), default=200, help="events a second that each of the four writers gets")
@option(
    "--seed", type=Whole(0, 2**31 - 1), default=1, help="another seed is another world; the same one the same events"
)
@option(
    "--out",
    type=click.Path(path_type=Path),
    default="strandline-demo.png",
    metavar="FILE",
    help="where the picture goes (PNG)",
)
@option(
    "--keep", is_flag=True, help="leave the controller running for a look round, and keep log, store and all output"
)
def command(duration: int, outage: int, delay: int, rate: int, seed: int, out: Path, keep: bool) -> None:
    """Show the main job end to end.

    Four writers note their times, one of them is offline for a while, and Spark runs beside its usual watermark.
    """
    if outage > duration - 6:  # there is a time before and after it
        raise Failure(f"--outage cannot be {outage}: it is at most --duration less 6 seconds", status=2)
    if not can_be_written(out):
        raise Failure(f"--out cannot be {out}: name a file in a folder that can be written to", status=2)
    try:
        from strandline.demo.run import play
    except ModuleNotFoundError as missing:
        raise Failure(f"{missing.name} is {not_installed('demo')}") from None
    try:
        play(DemoSettings(duration * 1000, outage * 1000, delay * 1000, rate, seed), out, keep=keep)
    except StrandlineError as error:
        raise Failure(error.detail) from error


def can_be_written(file: Path) -> bool:
    """Whether a file can be made or overwritten there. It tries: what the mode of a folder allows, /proc refuses."""
    if file.exists():
        return file.is_file() and os.access(file, os.W_OK)
    try:
        with TemporaryFile(dir=file.parent):
            return True
    except OSError:
        return False
