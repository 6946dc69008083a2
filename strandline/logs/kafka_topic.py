"""Asks Kafka about a topic: its partitions, their ends, and the clock of its timestamps.

A partition is a segment, named by its number. Needs confluent-kafka, the `kafka` extra.

Of a partition's ends, a tail takes the high watermark: the last stable offset lies below events of open transactions,
and a position may be too high but never too low. Readers end at the last stable offset.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    TopicPartitionInfo,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, TopicDescription
from confluent_kafka.cimpl import RESOURCE_TOPIC

from strandline.errors import StrandlineError
from strandline.fork import OwningProcess
from strandline.logs import Position, check_head
from strandline.logs.errors import InvalidSetting, LogUnavailable, TopicMissing
from strandline.paced_log import WAIT_LOGGED_AFTER_MS, PacedLog, Waiting

KAFKA_ASK_MS: Final = 30_000  # how long a request about a topic is repeated, as while a partition has no leader
KAFKA_ATTEMPT_MS: Final = 5_000  # the time for one attempt of such a request
KAFKA_SOCKET_MS: Final = 10_000  # for one answer to a producer or a consumer, before its broker counts as gone
KAFKA_PAUSE_MS: Final = 50  # between two attempts

# How long a leader may have an event that it does not show, while a follower that hangs counts as in sync: Kafka's
# default `replica.lag.time.max.ms` of 30 seconds, and half of it, since brokers look that often.
KAFKA_LAG_MS: Final = 45_000
KAFKA_CATCH_UP_MS: Final = 1_000  # for a follower that is in sync again: twice as long as a fetch of it waits at most

KAFKA_DELETE_MS: Final = 30_000  # how long a broker may take to remove records
KAFKA_MISSING_MS: Final = 1_000  # how long a topic counts as not yet known to every broker

Value = TypeVar("Value")
Client = TypeVar("Client")
Settings = Mapping[str, Any]  # librdkafka's configuration properties

# The settings of a producer or consumer that any client of the cluster needs: how to reach it.
CONNECTING: Final = (
    "api.version", "bootstrap.servers", "broker.", "client.dns", "client.id", "connections.", "debug", "enable.sasl.",
    "enable.ssl", "error_cb", "https.", "log", "metadata.", "oauth", "plugin.", "reconnect.", "resolve_cb", "sasl.",
    "security.", "socket.", "ssl", "topic.metadata.",
)  # fmt: skip  # one line each would fill a page
CREATE_TIME: Final = "CreateTime"
REPLICAS_NEEDED: Final = "min.insync.replicas"
# librdkafka writes some twenty lines a second for a broker that is away. What it says comes back from calls as well.
QUIET: Final = {"log_level": 2}

# Of the client that asks. Kafka's brokers say that one of them is the controller, and the client sends it requests: if
# that one dies, the client would learn of another only after five minutes. A broker that hangs keeps its connection:
# the client would wait a minute for its answer before it asks another.
ASKING: Final = {**QUIET, "topic.metadata.refresh.interval.ms": 2_000, "socket.timeout.ms": KAFKA_ATTEMPT_MS}


def connecting(settings: Settings) -> dict[str, Any]:
    """The settings that say how to reach the cluster."""
    return {name: value for name, value in settings.items() if name.startswith(CONNECTING)}


def client_of(kind: Callable[[dict[str, Any]], Client], settings: Mapping[str, Any]) -> Client:
    """A client of Kafka with these settings. Raises InvalidSetting for one that it does not take."""
    if "default.topic.config" in settings:
        wanted = "left out, and its settings given as such: they would replace others"
        raise InvalidSetting(name="default.topic.config", value=settings["default.topic.config"], wanted=wanted)
    try:
        return kind(dict(settings))
    except KafkaException as error:
        said = str(error.args[0].str())
        name = next((name for name in settings if f'"{name}"' in said or f"`{name}`" in said), "bootstrap.servers")
        given = settings[name] if str(settings[name]) in said else "what was given"  # which may be a secret
        raise InvalidSetting(name=name, value=given, wanted=f"Kafka's client reports: {said}") from None


class Topic:
    """Requests about one topic. A request is repeated for a while if Kafka cannot answer it now.

    Raises TopicMissing, and LogUnavailable after that time.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.servers = str(settings.get("bootstrap.servers", ""))
        self.path = f"{name} at {self.servers}"
        self._settings = settings
        self._admin = client_of(AdminClient, {**ASKING, **connecting(settings)})
        self._log = PacedLog("strandline")
        self._origin = OwningProcess(f"the client of topic {name!r}")
        self._origin.keep(self._admin)

    def identity(self) -> str:
        """What tells the topic from another one of its name. Brokers before Kafka 2.8 have no such thing."""
        return self._repeat(lambda timeout_s: str(self._description(timeout_s).topic_id))

    def partitions(self) -> list[int]:
        """The numbers of its present partitions."""
        return self._repeat(lambda timeout_s: sorted(each.id for each in self._described(timeout_s)))

    def ends(self, *, committed: bool = False, partitions: Iterable[int] | None = None) -> Position:
        """The offset behind the last record of each partition that all in-sync replicas have.

        It is the high watermark: events of open transactions may lie below it. With `committed`, it is the last stable
        offset: no transaction below it is open.
        """
        return self._offsets(OffsetSpec.latest(), partitions, committed=committed)

    def known_ends(self, partitions: Iterable[int]) -> tuple[Position, str]:
        """The ends with `committed` of those of these partitions that say it now, and why another one does not. It asks
        once."""
        self._origin.check()
        asked = {TopicPartition(self.name, number): OffsetSpec.latest() for number in partitions}
        level, timeout_s = IsolationLevel.READ_COMMITTED, KAFKA_ATTEMPT_MS / 1000
        found: Position = {}
        why = ""
        for each, future in self._admin.list_offsets(asked, isolation_level=level, request_timeout=timeout_s).items():
            try:
                found |= _checked({str(each.partition): future.result().offset})
            except KafkaException as error:
                why = f"partition {each.partition}: {error.args[0].str()}"
        return found, why

    def ends_for_notes(self, hidden_until: Mapping[str, float] | None = None) -> Position:
        """The ends, for a position that is to lie above events that nobody knows to be acknowledged.

        It waits until each partition has the in-sync replicas that it needs: until then its leader may have events
        above the high watermark, which come to light later. For segments with replicas in `hidden_until`, it first
        waits until that monotonic time.
        """
        if hidden_until:
            self._sit_out(hidden_until)
        some_lacked = False

        def ask(timeout_s: float) -> list[int]:
            nonlocal some_lacked
            described = self._described(timeout_s)
            try:
                _check_in_sync(described, lambda: self._setting(REPLICAS_NEEDED, timeout_s))
            except KafkaException as error:
                some_lacked |= error.args[0].code() == KafkaError.NOT_ENOUGH_REPLICAS
                raise
            return [each.id for each in described]

        partitions = self._repeat(ask)
        if some_lacked:  # a follower is in sync again at the high watermark, and fetches what lies above it afterwards
            time.sleep(KAFKA_CATCH_UP_MS / 1000)
        return self.ends(partitions=partitions)

    def heads(self, partitions: Iterable[int] | None = None) -> Position:
        """The first offset of each partition that retention has not removed."""
        return self._offsets(OffsetSpec.earliest(), partitions)

    def since(self, time_ms: int, partitions: Iterable[int]) -> Position:
        """The offset of the first record with this timestamp or a later one; a partition without one is left out."""
        found = self._offsets(OffsetSpec.for_timestamp(time_ms), partitions)
        return {segment: offset for segment, offset in found.items() if offset >= 0}

    def truncate(self, head: Position) -> Position:
        """Makes Kafka remove the events below these offsets (DeleteRecords); returns each partition's new first offset.

        Raises UnknownSegment and NotInLog, and then removes nothing. After LogUnavailable some partitions may be
        truncated; a repeated call goes on from there.
        """
        check_head(head, self.ends())
        begun = self.heads([int(segment) for segment in head])
        further = {segment: offset for segment, offset in head.items() if offset > begun[segment]}

        def ask(timeout_s: float) -> Position:
            asked = [TopicPartition(self.name, int(segment), offset) for segment, offset in further.items()]
            futures = self._admin.delete_records(asked, request_timeout=KAFKA_DELETE_MS / 1000)
            return {str(each.partition): future.result().low_watermark for each, future in futures.items()}

        return {**begun, **(self._repeat(ask) if further else {})}

    def timestamp_type(self) -> str:
        """The clock of its timestamps: "CreateTime" for the producer's, "LogAppendTime" for the broker's."""
        return self._repeat(lambda timeout_s: self._setting("message.timestamp.type", timeout_s))

    def memo(self, group: str) -> str | None:
        """The metadata of the offset that a group has committed here.

        It uses a consumer, because AdminClient's call crashes the process (SIGSEGV in librdkafka 2.16) if the broker
        that it takes for the group's coordinator is not the coordinator, or not yet, as on a cluster without groups.
        """
        consumer = Consumer({**QUIET, **connecting(self._settings), "group.id": group, "enable.auto.commit": False})

        def ask(timeout_s: float) -> str | None:
            (found,) = consumer.committed([TopicPartition(self.name, 0)], timeout_s)
            if found.error is not None:
                raise KafkaException(found.error)
            text: str | None = found.metadata
            return text if found.offset >= 0 else None

        try:
            return self._repeat(ask)
        finally:
            consumer.close()

    def _description(self, timeout_s: float) -> TopicDescription:
        found = self._admin.describe_topics(TopicCollection([self.name]), request_timeout=timeout_s)
        description: TopicDescription = found[self.name].result()
        return description

    def _described(self, timeout_s: float) -> list[TopicPartitionInfo]:
        partitions: list[TopicPartitionInfo] = self._description(timeout_s).partitions
        return partitions

    def _sit_out(self, hidden_until: Mapping[str, float]) -> None:
        described = self._repeat(self._described)
        until = max((hidden_until.get(str(each.id), 0.0) for each in described if len(each.replicas) > 1), default=0.0)
        waiting = Waiting(self._log)
        while (left_s := until - time.monotonic()) > 0:
            waiting.goes_on(f"{self.path}: for {left_s:.0f} s more, a follower may hide what was not acknowledged")
            time.sleep(min(left_s, 1))

    def _setting(self, name: str, timeout_s: float) -> str:
        resource = ConfigResource(RESOURCE_TOPIC, self.name)
        (future,) = self._admin.describe_configs([resource], request_timeout=timeout_s).values()
        return str(future.result()[name].value)

    def _offsets(self, spec: OffsetSpec, partitions: Iterable[int] | None, *, committed: bool = False) -> Position:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def ask(timeout_s: float) -> Position:
            numbers = self.partitions() if partitions is None else partitions
            asked = {TopicPartition(self.name, number): spec for number in numbers}
            if not asked:
                return {}
            futures = self._admin.list_offsets(asked, isolation_level=level, request_timeout=timeout_s)
            found = {str(each.partition): future.result().offset for each, future in futures.items()}
            return _checked(found)

        return self._repeat(ask)

    def _repeat(self, ask: Callable[[float], Value]) -> Value:
        self._origin.check()
        started = time.monotonic()
        waiting = Waiting(self._log)
        waiting.begins()
        timeout_ms = WAIT_LOGGED_AFTER_MS  # so that it can log by then for whom it waits
        while True:
            try:
                return ask(timeout_ms / 1000)
            except KafkaException as error:
                timeout_ms = KAFKA_ATTEMPT_MS
                self._check(error.args[0], asked_ms=(time.monotonic() - started) * 1000)
                waiting.goes_on(f"waiting for Kafka at {self.servers}, topic {self.name!r}: {error.args[0].str()}")
                time.sleep(KAFKA_PAUSE_MS / 1000)

    def _check(self, error: KafkaError, asked_ms: float) -> None:
        """Raises unless the request should be repeated. At first not every broker knows a new topic."""
        if error.code() in _UNKNOWN and asked_ms > KAFKA_MISSING_MS:
            raise TopicMissing(topic=self.name, servers=self.servers) from None
        if error.code() in _HOPELESS or asked_ms > KAFKA_ASK_MS:
            raise LogUnavailable(path=self.path, reason=error.str()) from None


class NotedTopics:
    """Asks where many topics end, for notes, by one client. It asks once: what Kafka cannot answer now is an error of
    that topic alone, and the caller asks again."""

    def __init__(self, settings: Settings) -> None:
        self.servers = str(settings.get("bootstrap.servers", ""))
        self._admin = client_of(AdminClient, {**ASKING, **connecting(settings)})
        self._unknown: dict[str, float] = {}  # since when no broker knows a topic
        # Topics that lacked replicas, and since when none of theirs lacks any, as far as that is known.
        self._lacked: dict[str, float | None] = {}

    def ends(self, names: Iterable[str]) -> dict[str, Position | StrandlineError]:
        """The ends of each topic, as `Topic.ends_for_notes`; or TopicMissing, or LogUnavailable. A topic that no broker
        knows is left out at first, since it may be new."""
        names = list(dict.fromkeys(names))
        if not names:
            return {}
        described = self._admin.describe_topics(TopicCollection(names), request_timeout=KAFKA_ATTEMPT_MS / 1000)
        partitions: dict[str, list[int]] = {}
        found: dict[str, Position | StrandlineError] = {}
        unknown: dict[str, float] = {}
        for name in names:
            now = time.monotonic()
            try:
                infos = described[name].result().partitions
                _check_in_sync(infos, partial(self._replicas_needed, name))
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.NOT_ENOUGH_REPLICAS:
                    self._lacked[name] = None
                if code not in _UNKNOWN:
                    found[name] = self._failure(name, error)
                elif (now - unknown.setdefault(name, self._unknown.get(name, now))) * 1000 > KAFKA_MISSING_MS:
                    found[name] = TopicMissing(topic=name, servers=self.servers)
                continue
            if name in self._lacked:  # as in `Topic.ends_for_notes`
                since = self._lacked[name] = self._lacked[name] or now
                if (now - since) * 1000 < KAFKA_CATCH_UP_MS:
                    found[name] = LogUnavailable(path=self._path(name), reason="its followers fetch what they lacked")
                    continue
                del self._lacked[name]
            partitions[name] = [each.id for each in infos]
        self._unknown = unknown
        return found | self._ends(partitions)

    def _ends(self, partitions: Mapping[str, Iterable[int]]) -> dict[str, Position | StrandlineError]:
        asked = {
            TopicPartition(name, each): OffsetSpec.latest() for name, numbers in partitions.items() for each in numbers
        }
        level = IsolationLevel.READ_UNCOMMITTED
        if not asked:
            return {name: {} for name in partitions}
        futures = self._admin.list_offsets(asked, isolation_level=level, request_timeout=KAFKA_ATTEMPT_MS / 1000)
        positions: dict[str, Position] = {name: {} for name in partitions}
        failed: dict[str, StrandlineError] = {}
        for each, future in futures.items():
            try:
                positions[each.topic] |= _checked({str(each.partition): future.result().offset})
            except KafkaException as error:
                failed[each.topic] = self._failure(each.topic, error)
        return {**positions, **failed}

    def _replicas_needed(self, name: str) -> str:
        resource = ConfigResource(RESOURCE_TOPIC, name)
        (future,) = self._admin.describe_configs([resource], request_timeout=KAFKA_ATTEMPT_MS / 1000).values()
        return str(future.result()[REPLICAS_NEEDED].value)

    def _failure(self, name: str, error: KafkaException) -> StrandlineError:
        return LogUnavailable(path=self._path(name), reason=error.args[0].str())

    def _path(self, name: str) -> str:
        return f"{name} at {self.servers}"


def _check_in_sync(partitions: Iterable[TopicPartitionInfo], replicas_needed: Callable[[], str]) -> None:
    """Raises KafkaException with NOT_ENOUGH_REPLICAS unless each partition has the in-sync replicas that it needs.
    `replicas_needed` gives the topic's `min.insync.replicas`, and is asked only where some are not in sync."""
    lacking = [each for each in partitions if len(each.isr) < len(each.replicas)]
    if not lacking:
        return
    why, asked = "", 1  # of what is no Kafka, but speaks like it
    try:
        with suppress(KeyError):
            asked = int(replicas_needed())
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise
        why, asked = ": without the right DescribeConfigs on the topic, it needs all of them", sys.maxsize
    for each in lacking:
        needed = min(len(each.replicas), asked)
        if len(each.isr) < needed:
            reason = f"partition {each.id} has {len(each.isr)} in-sync replicas, and needs {needed}{why}"
            raise KafkaException(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS, reason))


def _checked(ends: Position) -> Position:
    """The ends; raises KafkaException where a partition has told none, as while it gets another leader."""
    for segment, offset in ends.items():
        if offset == OFFSET_INVALID:
            raise KafkaException(
                KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"partition {segment} has given no offset")
            )
    return ends


_UNKNOWN: Final = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}
_HOPELESS: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.POLICY_VIOLATION,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
}
