"""`strandline tail`."""

from __future__ import annotations

import socket
from typing import Final

import click
from click import IntRange

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.named_log import NamedLog, names_log
from controller.cli.options import json_option, name_of, option
from controller.cli.tail_loop import Tail, TailedLog, TailedReader
from controller.terminal import Failure
from strandline.errors import StrandlineError
from strandline.logs.places import KafkaTopic, Place

TAIL_INTERVAL_MS: Final = 1_000
TAIL_INTERVAL_LEAST_MS: Final = 10
TAIL_INTERVAL_BOUND_MS: Final = 3_600_000


def own_name() -> str:
    """A reporter's name that stays the same when the tail is started again, so that it goes on where it was."""
    host = "".join(
        each if each.isascii() and (each.isalnum() or each in "-_.") else "-" for each in socket.gethostname()
    )
    return f"tail-{host}"[:200]


@click.command
@click.argument("stream", type=name_of("stream"), help="the stream, in the ingestion time domain")
@names_log
@option(
    "--reporter",
    type=name_of("reporter"),
    default=own_name,
    show_default="tail- and the host's name",
    metavar="NAME",
    help="by which the controller recognises this tail",
)
@option(
    "--interval-ms",
    type=IntRange(TAIL_INTERVAL_LEAST_MS, TAIL_INTERVAL_BOUND_MS),
    default=TAIL_INTERVAL_MS,
    help="how often it reports, and how long after the clock the end offsets are read",
)
@option("--once", is_flag=True, help="report once, and end")
@calls_controller
@json_option
def command(
    client: ControllerClient,
    stream: str,
    log: NamedLog,
    reporter: str,
    interval_ms: int,
    once: bool,
    as_json: bool,
) -> None:
    """Report where a log ends, so that an ingestion-time stream has exact marks without touching a producer.

    The controller's clock is read first and the end offsets after that, again and again. Several tails may run for
    safety, each with a reporter's name of its own.
    """
    # It goes on while the controller or the log is away, until it is told to end or refused.
    try:
        tailed = _tailed(log.place(stream))
    except StrandlineError as error:
        raise Failure(str(error)) from None
    Tail(client, tailed, stream, reporter, interval_ms, once, as_json).run()


def _tailed(place: Place) -> TailedLog:
    if isinstance(place, KafkaTopic):
        from controller.cli.tail_kafka import TailedTopic

        return TailedTopic(place.topic, place.settings)
    return TailedReader(place.open_reader())
