"""`strandline tail`."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

import click
from click import IntRange

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import json_option, kafka_settings_option, name_of, needs, option, settings_file
from controller.cli.tail_loop import Tail, TailedLog, TailedReader
from controller.terminal import Failure
from strandline.errors import StrandlineError
from strandline.logs.places import place_at

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
@option("--servers", metavar="HOST:PORT,…", help="Kafka's bootstrap servers")
@option("--topic", metavar="TOPIC", help="the topic; else the one that is named like the stream")
@kafka_settings_option
@option("--path", type=click.Path(path_type=Path), metavar="FILE", help="an embedded log to tail instead of a topic")
@option(
    "--reporter",
    type=name_of("reporter"),
    default=own_name,
    show_default="tail- and the host's name",
    metavar="NAME",
    help="what the controller knows this tail by",
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
    servers: str | None,
    topic: str | None,
    settings: Path | None,
    path: Path | None,
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
        log = _log(path, servers, topic or stream, settings)
    except StrandlineError as error:
        raise Failure(str(error)) from None
    Tail(client, log, stream, reporter, interval_ms, once, as_json).run()


def _log(path: Path | None, servers: str | None, topic: str, settings: Path | None) -> TailedLog:
    if (servers is None) == (path is None):
        raise click.UsageError("Give --servers for a topic in Kafka, or --path for an embedded log; one of these.")
    if path is not None:
        return TailedReader(place_at(path).open_reader())
    with needs("kafka"):
        from controller.cli.tail_kafka import TailedTopic
    return TailedTopic(topic, {**settings_file(settings), "bootstrap.servers": servers})
