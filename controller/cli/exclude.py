"""Set a writer aside: time goes on without it, and marks name it, until it is included or registers again."""

from __future__ import annotations

import argparse

from controller.cli.exclusion import add_writer_options, change

HELP = "set a writer aside, so that time goes on without it"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_writer_options(parser)


def run(options: argparse.Namespace) -> int:
    from controller.cli.client import exclude

    question = f"Exclude {options.writer} from {options.stream}? What it has not noted yet may then be late."
    return change(options, exclude, question, f"{options.writer} is set aside in {options.stream}")
