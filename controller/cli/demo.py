"""Show the main job end to end: four writers, one of them offline for a while, and Spark beside its usual watermark."""

from __future__ import annotations

import argparse

from controller.terminal import Failure

HELP = "show the main job end to end"


def add_options(parser: argparse.ArgumentParser) -> None:
    from strandline_demo.options import add_knobs

    add_knobs(parser)


def run(options: argparse.Namespace) -> int:
    try:
        from strandline_demo.command import run as play
    except ModuleNotFoundError as missing:
        raise Failure(f"{missing.name} is not installed: pip install 'strandline[demo]'") from None
    return play(options)
