"""The options of `strandline demo`. Loads the standard library only, so that `--help` is quick."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from controller.cli.options import add_flag, add_option
from controller.terminal import Failure
from strandline_demo.world import DemoSettings


def add_options(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "duration", within(12, 600), 30, "seconds that events happen for", "S")
    add_option(parser, "outage", within(0, 594), 10, "seconds that the offline writer is away", "S")
    add_option(parser, "delay", within(0, 60), 5, "seconds of delay that the plain withWatermark is given", "S")
    add_option(parser, "rate", within(1, 5_000), 200, "events a second that each of the four writers gets", "N")
    meaning = "another seed is another world; the same one is the same events"
    add_option(parser, "seed", within(0, 2**31 - 1), 1, meaning, "N")
    add_option(parser, "out", Path, Path("strandline-demo.png"), "where the picture goes (PNG)", "FILE")
    add_flag(parser, "keep", "leave the controller running for a look round, and keep log, store and all output")


def settings_of(given: argparse.Namespace) -> DemoSettings:
    """The world that was asked for. Raises Failure where options do not go together or `out` cannot be."""
    if given.outage > given.duration - 6:  # there is a time before and after it
        raise Failure(f"--outage cannot be {given.outage}: it is at most --duration less 6 seconds", status=2)
    if given.out.is_dir() or not os.access(given.out.resolve().parent, os.W_OK | os.X_OK):
        raise Failure(f"--out cannot be {given.out}: name a file in a folder that can be written to", status=2)
    return DemoSettings(given.duration * 1000, given.outage * 1000, given.delay * 1000, given.rate, given.seed)


def within(least: int, greatest: int) -> Callable[[str], int]:
    """A whole number between two bounds, both included."""

    def check(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= greatest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {greatest}")
        return int(text)

    return check
