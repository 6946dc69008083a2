"""Report where a log ends, so that an ingestion-time stream has exact marks without touching a producer.

The controller's clock is read first and the end offsets after that, again and again. Several tails may run for
safety, each with a reporter's name of its own.
"""

from __future__ import annotations

import argparse
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from controller.cli.arguments import add_controller, add_json, add_optional, name_of, whole
from controller.cli.limits import TAIL_INTERVAL_BOUND_MS, TAIL_INTERVAL_LEAST_MS, TAIL_INTERVAL_MS
from controller.cli.options import add_flag, add_option
from controller.terminal import Failure

if TYPE_CHECKING:
    from controller.cli.tail_loop import TailedLog

HELP = "report a log's end offsets, for exact ingestion time"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", type=name_of("stream"), help="the stream, in the ingestion time domain")
    add_optional(parser, "servers", str, "Kafka's bootstrap servers", "HOST:PORT,…")
    add_optional(parser, "topic", str, "the topic; else the one that is named like the stream")
    add_optional(
        parser, "settings", Path, "a file with more of librdkafka's settings, such as for security: name=value", "FILE"
    )
    add_optional(parser, "path", Path, "an embedded log to tail instead of a topic", "FILE")
    add_option(parser, "reporter", name_of("reporter"), _own_name(), "what the controller knows this tail by", "NAME")
    interval = whole(TAIL_INTERVAL_LEAST_MS, TAIL_INTERVAL_BOUND_MS)
    add_option(
        parser,
        "interval-ms",
        interval,
        TAIL_INTERVAL_MS,
        "how often it reports, and how long after the clock the end offsets are read",
    )
    add_flag(parser, "once", "report once, and end")
    add_controller(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Goes on while the controller or the log is away, until it is told to end or refused."""
    from controller.cli.client import speaking
    from controller.cli.tail_loop import Tail
    from strandline.errors import StrandlineError

    with speaking(options) as speaker:
        try:
            log = _log(options)
        except StrandlineError as error:
            raise Failure(str(error)) from None
        return Tail(speaker, options, log).run()


def _log(options: argparse.Namespace) -> TailedLog:
    if (options.servers is None) == (options.path is None):
        raise Failure("give --servers for a topic in Kafka, or --path for an embedded log")
    if options.path is not None:
        from controller.cli.tail_loop import EmbeddedLog

        return EmbeddedLog(options.path)
    try:
        from controller.cli.tail_kafka import TailedTopic
    except ImportError as error:
        raise Failure(f"{error.name} is not installed: pip install 'strandline[kafka]'") from None
    return TailedTopic(
        options.topic or options.stream, {**_settings(options.settings), "bootstrap.servers": options.servers}
    )


def _settings(file: Path | None) -> dict[str, str]:
    """The settings in a file like Kafka's own: a name=value a line, # begins a comment."""
    if file is None:
        return {}
    try:
        lines = [line.strip() for line in file.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"the settings cannot be read: {error}") from None
    found = {}
    for number, line in enumerate(lines, start=1):
        name, equals, value = line.partition("=")
        if line and not line.startswith("#"):
            if not equals:  # which the line itself is not told in: it may well be a password
                raise Failure(f"line {number} of {file} is no name=value")
            found[name.strip()] = value.strip()
    return found


def _own_name() -> str:
    """Stays the same when the tail is started again, so that it goes on where it was."""
    host = "".join(
        each if each.isascii() and (each.isalnum() or each in "-_.") else "-" for each in socket.gethostname()
    )
    return f"tail-{host}"[:200]
