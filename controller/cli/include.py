"""Bring back a writer that was set aside: time waits for it again."""

from __future__ import annotations

import argparse

from controller.cli.exclusion import add_writer_options, change

HELP = "bring back a writer that was set aside"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_writer_options(parser)


def run(options: argparse.Namespace) -> int:
    from controller.cli.client import include

    question = f"Include {options.writer} in {options.stream} again? Time then waits for it."
    return change(options, include, question, f"{options.writer} counts in {options.stream} again")
