"""`strandline marks`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Final

import click

from controller.cli.client import Answered, ControllerClient, calls_controller
from controller.cli.options import after_option, key_option, limit_option, option, stream_argument
from controller.cli.screen import MARK_HEADER, Output, listing, mark_line, mark_row, prints
from controller.operators.wording import Times
from strandline.client.calls import describe, marks
from strandline.errors import StreamRecreated
from strandline.wire.streams import MarksPage

FOLLOW_WAIT_MS: Final = 20_000  # one request for the next mark
FOLLOW_PAUSE_MS: Final = 200  # after an answer without a mark


@click.command
@stream_argument
@key_option
@after_option("mark")
@limit_option("so many marks, before those that are followed")
@option(
    "--follow", is_flag=True, help="go on with each new mark, until the stream's end or Ctrl-C; with --json one a line"
)
@calls_controller
@prints
def command(
    client: ControllerClient, stream: str, key: str, after: int | None, limit: int, follow: bool, output: Output
) -> None:
    """Show marks of a stream, the newest or those after a seq, and with --follow each new one as it is made."""
    start = _before_the_newest(client, stream, key, limit) if after is None else after
    page = client.ask(marks(stream, key=key, after=start, limit=limit))
    if follow:
        for marked in _follow(client, stream, key, page, start):
            for mark, as_it_came in zip(marked.value.marks, marked.json["marks"], strict=True):
                output.show_line(as_it_came, partial(mark_line, mark, output.times))
    else:
        output.show(
            page.json, lambda: _lines(page.value, "no mark after that" if after else "no mark yet", output.times)
        )


def _lines(page: MarksPage, none: str, times: Times) -> list[str]:
    rest = [] if page.resting is None else [f"at rest: time has reached {times.show(page.resting)}"]
    return [*listing(MARK_HEADER, [mark_row(mark, times) for mark in page.marks], none=none), *rest]


def _before_the_newest(client: ControllerClient, stream: str, key: str, limit: int) -> int:
    """The seq after which the newest marks come."""
    latest = client.run(describe(stream)).latest_marks.get(key)
    return max(0, latest.seq - limit) if latest is not None else 0


def _follow(
    client: ControllerClient, stream: str, key: str, marked: Answered[MarksPage], after: int
) -> Iterator[Answered[MarksPage]]:
    """The first marks, and each one after them. Ends with the stream; raises StreamRecreated if another one has its
    name."""
    is_sealed, identity = False, marked.value.identity
    while True:
        if marked.value.identity != identity:
            raise StreamRecreated(stream=stream, identity=identity, present=marked.value.identity)
        if marked.value.marks:
            after = marked.value.marks[-1].seq
            yield marked
        elif is_sealed:
            return
        else:
            is_sealed = client.until_answered(lambda: client.run(describe(stream))).sealed  # its last marks may be new
            if not is_sealed:
                time.sleep(FOLLOW_PAUSE_MS / 1000)  # a controller that is about to stop answers at once
        marked = client.until_answered(partial(_next, client, stream, key, after))


def _next(client: ControllerClient, stream: str, key: str, after: int) -> Answered[MarksPage]:
    return client.ask(marks(stream, key=key, after=after, wait_ms=FOLLOW_WAIT_MS))
