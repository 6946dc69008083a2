"""A Kafka producer that knows how far its events are acknowledged: it wraps confluent-kafka's, and counts the reports.

    producer = Producer(settings)               before
    producer = TrackedProducer(settings)        after

Nothing else changes, delivery callbacks included; a Writer takes `producer.log("orders")`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from confluent_kafka import KafkaError, Message, Producer

from strandline.fork import OwningProcess
from strandline.logs.deliveries import Deliveries, Delivery
from strandline.logs.errors import InvalidSetting
from strandline.logs.kafka_topic import Settings

if TYPE_CHECKING:
    from strandline.logs import Event
    from strandline.logs.kafka import KafkaLog

Callback = Callable[[KafkaError | None, Message], None]
ANY_PARTITION: Final = -1  # confluent-kafka's number for the partition of the key
CALLBACK_PLACES: Final = (3, 4)  # the indexes of `callback` and `on_delivery` in the arguments after the topic


class TrackedProducer:
    """A producer whose acknowledged offsets are known. It has the calls of the wrapped producer.

    Acknowledged means: by every in-sync replica. So `acks` must be `all`, which is the default; and reports of success
    are needed, so `delivery.report.only.error` must stay off.
    """

    def __init__(self, settings: Settings, producer: Producer | None = None) -> None:
        """Makes a producer with these settings, or wraps one that was made with them (a SerializingProducer, say).

        A callback for all messages must be in `settings` as `on_delivery`, because a producer does not reveal it.
        Raises InvalidSetting for settings with which the acknowledged offsets would not be known.
        """
        self.settings = dict(settings)
        _check(self.settings)
        self._callback: Callback | None = self.settings.get("on_delivery")
        self._producer = Producer(self.settings) if producer is None else producer
        self._origin = OwningProcess(f"a Kafka producer for {self.settings.get('bootstrap.servers', '')}")
        self._origin.keep(self._producer)
        self._deliveries: dict[str, Deliveries] = {}
        self._logs: dict[str, KafkaLog] = {}
        self._in_transaction = False

    def log(self, topic: str) -> KafkaLog:
        """A topic as the log of a Writer: the positions of notes come from what this producer has sent there."""
        from strandline.logs.kafka import (
            KafkaLog,  # not at the top: that module imports this one
        )

        found = self._logs.get(topic)
        return self._logs.setdefault(topic, KafkaLog(self, topic)) if found is None else found

    def deliveries(self, topic: str) -> Deliveries:
        """The deliveries to a topic: how far they are acknowledged."""
        found = self._deliveries.get(topic)
        if found is None:
            found = self._deliveries.setdefault(topic, Deliveries())
            if self._in_transaction:
                found.begin()
        return found

    # -- a producer's own calls --------------------------------------------------------------------------------

    def produce(self, topic: str, *given: Any, **named: Any) -> None:
        """Sends a message. It calls the caller's callback, in whichever argument it is given."""
        self._origin.check()
        arguments = list(given)
        callback = named.pop("callback", None) or named.pop("on_delivery", None)
        for place in CALLBACK_PLACES:
            if len(arguments) > place and callable(arguments[place]):
                callback, arguments[place] = callback or arguments[place], None
        delivery = self.deliveries(topic).sending()
        report = partial(_report, delivery, callback or self._callback)
        if len(arguments) > CALLBACK_PLACES[0]:
            arguments[CALLBACK_PLACES[0]] = report
        else:
            named["on_delivery"] = report
        try:
            self._producer.produce(topic, *arguments, **named)
        except BaseException:
            delivery.withdrawn()
            raise

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Callback | None = None,
        on_delivery: Callback | None = None,
    ) -> int:
        """Sends messages; returns how many were taken. The others get an `_error`."""
        self._origin.check()
        deliveries = self.deliveries(topic)
        common = callback or on_delivery or self._callback
        sending = [deliveries.sending() for _ in messages]
        sent = [
            {**message, "callback": partial(_report, delivery, message.get("callback") or common)}
            for message, delivery in zip(messages, sending, strict=True)
        ]
        try:
            count: int = self._producer.produce_batch(topic, sent, partition)
        except BaseException:
            for delivery in sending:
                delivery.withdrawn()
            raise
        for message, copy, delivery in zip(messages, sent, sending, strict=True):
            if "_error" in copy:
                message["_error"] = copy["_error"]
                delivery.withdrawn()
        return count

    def send(self, topic: str, event: Event) -> None:
        """Sends an event of a log. If it fails, its log gets the event back."""
        self._origin.check()
        delivery = self.deliveries(topic).sending(event)
        partition = ANY_PARTITION if event.segment is None else int(event.segment)
        report = partial(_report, delivery, self._callback)
        try:
            self._producer.produce(topic, event.value, event.key, partition, on_delivery=report)
        except BaseException:
            delivery.withdrawn()
            raise

    def begin_transaction(self) -> None:
        self._origin.check()
        self._producer.begin_transaction()
        self._in_transaction = True
        for each in self._deliveries.values():
            each.begin()

    def commit_transaction(self, *timeout: float) -> None:
        """Commits. Events of the transaction count as acknowledged when this returns, and not before."""
        self._origin.check()
        self._producer.commit_transaction(*timeout)
        self._in_transaction = False
        for each in self._deliveries.values():
            each.commit()

    def abort_transaction(self, *timeout: float) -> None:
        self._origin.check()
        self._producer.abort_transaction(*timeout)
        self._in_transaction = False
        for each in self._deliveries.values():
            each.abort()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a copy asks before __init__, when there is no producer
            raise AttributeError(name)
        self._origin.check()
        return getattr(self._producer, name)

    def __enter__(self) -> Self:
        self._producer.__enter__()
        return self

    def __exit__(self, *given: Any) -> Any:
        return self._producer.__exit__(*given) if self._origin.is_here else None

    def __len__(self) -> int:
        return len(self._producer)

    def __bool__(self) -> bool:
        return True  # a producer is true with an empty queue too


def _check(settings: Settings) -> None:
    for name in ("acks", "request.required.acks"):
        if str(settings.get(name, "all")) not in ("all", "-1"):
            wanted = "all, so that no acknowledged event is lost with a broker"
            raise InvalidSetting(name=name, value=settings[name], wanted=wanted)
    only_errors = settings.get("delivery.report.only.error", False)
    if str(only_errors).lower() != "false":
        wanted = "false: positions come from the reports of success"
        raise InvalidSetting(name="delivery.report.only.error", value=only_errors, wanted=wanted)


def _report(delivery: Delivery, callback: Callback | None, error: KafkaError | None, message: Message) -> None:
    partition, offset = message.partition(), message.offset()
    if error is not None:
        sent_to = partition is not None and partition >= 0
        delivery.failed(error.str(), str(partition) if sent_to else None)
    elif offset is None or offset < 0:
        delivery.failed("its report has no offset: the producer's acks must be all", str(partition))
    else:
        delivery.acknowledged(str(partition), offset)
    if callback is not None:
        callback(error, message)
