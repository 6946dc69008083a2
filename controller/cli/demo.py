"""Show the main job end to end: four writers, one of them offline for a while, and Spark beside its usual watermark."""

from __future__ import annotations

import argparse

from controller.terminal import Failure

HELP = "show the main job end to end"


def add_options(parser: argparse.ArgumentParser) -> None:
    from strandline_demo.options import add_options

    add_options(parser)


def run(options: argparse.Namespace) -> int:
    from strandline.errors import StrandlineError
    from strandline_demo.options import settings_of

    settings = settings_of(options)
    try:
        from strandline_demo.run import play
    except ModuleNotFoundError as missing:
        raise Failure(f"{missing.name} is not installed: pip install 'strandline[demo]'") from None
    try:
        play(settings, options.out, keep=options.keep)
    except StrandlineError as error:
        raise Failure(error.detail) from error
    return 0
