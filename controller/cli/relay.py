"""`strandline relay`."""

from __future__ import annotations

import signal
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import kafka_settings_option, name_of, needs, option, pairs, settings_file
from controller.terminal import Failure, remark, say
from strandline.errors import StrandlineError
from strandline.logs import Position

TOPIC: Final = "strandline-notes"
GROUP: Final = "strandline-relay"


def topics_of_streams(text: str) -> dict[str, str]:
    """Reads `stream=topic,stream=topic`."""
    found = pairs(text, "orders=web.orders,clicks=web.clicks") if text else {}
    return {name_of("stream")(stream): topic for stream, topic in found.items()}


def address(text: str) -> tuple[str, int]:
    """Reads HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise click.BadParameter(f"{text!r} is no HOST:PORT, such as 127.0.0.1:9310")
    return host.strip("[]"), int(port)


@click.command
@option("--servers", required=True, metavar="HOST:PORT,…", help="Kafka's bootstrap servers")
@option("--topic", default=TOPIC, metavar="TOPIC", help="the topic with the notes")
@option("--relay-group", default=GROUP, metavar="GROUP", help="the consumer group that all relays of the topic share")
@option(
    "--topics",
    type=topics_of_streams,
    default="",
    metavar="STREAM=TOPIC,…",
    help="the topics of streams that are not named like theirs",
)
@kafka_settings_option
@option("--metrics", type=address, metavar="HOST:PORT", help="serve Prometheus's metrics there")
@calls_controller
def command(
    client: ControllerClient,
    servers: str,
    topic: str,
    relay_group: str,
    topics: dict[str, str],
    settings: Path | None,
    metrics: tuple[str, int] | None,
) -> None:
    """Note what producers say in a topic, so that they need no client but Kafka's.

    A producer flushes, and then sends {"stream": "orders", "writer": "till-7", "time": 1767268800000}, with the
    writer's name as the record's key. Any number of relays share the topic's partitions.
    """
    with needs("kafka"):
        from strandline.logs.kafka_topic import NotedTopics, Topic
        from writer_client.relay.lines import Lines, shown
        from writer_client.relay.loop import Relay
        from writer_client.relay.measures import RelayMeasures
        from writer_client.relay.topic import NotesTopic, member
    given: dict[str, Any] = {**settings_file(settings), "bootstrap.servers": servers}

    try:
        try:
            measures = RelayMeasures(metrics)
        except OSError as error:
            raise Failure(f"metrics cannot be served: {error.strerror}") from None
        records = NotesTopic(Topic(topic, given), member(relay_group, given))
        noted = NotedTopics(given)

        def ends(streams: Collection[str]) -> dict[str, Position | StrandlineError]:
            named = {stream: topics.get(stream, stream) for stream in streams}
            found = noted.ends(named.values())
            return {stream: found[name] for stream, name in named.items() if name in found}

        signal.signal(signal.SIGTERM, signal.default_int_handler)  # it leaves its group in order
        say(f"relays the notes in {topic} to {client.controller}; Ctrl-C ends it")
        try:
            Relay(client.connection, client.explain, records, ends, measures, Lines(remark)).run()
        finally:
            records.close()
    except StrandlineError as error:
        raise Failure(shown(client.explain(error))) from None
