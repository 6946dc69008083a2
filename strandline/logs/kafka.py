"""The log on Kafka, append side: a topic, whose partitions are the segments. Needs the `kafka` extra.

`KafkaLog` writes to a topic. `TrackedProducer` is for programs that have a producer of their own: it has how far the
events of that producer are acknowledged, since it counts the delivery reports.

    producer = Producer(settings)               before
    producer = TrackedProducer(settings)        after

Nothing else changes, delivery callbacks included. A `Writer` takes `producer.log("orders")`.

Kafka acknowledges later: `append` returns when the events are under way, `flush` waits for the delivery reports. With a
transactional id every append is a transaction of its own, and `begin` makes larger ones.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from strandline.errors import StrandlineError, UnknownSegment
from strandline.fork import OwningProcess
from strandline.logs import EVENT_BYTES, Event, Memo, Position, Transaction, check_size
from strandline.logs.buffered_transaction import EVENT_OVERHEAD_BYTES, BufferedTransaction, OpenTransactions
from strandline.logs.deliveries import Deliveries, Delivery
from strandline.logs.errors import (
    InvalidSetting,
    LogFenced,
    LogUnavailable,
    LogUndecided,
    NotAcknowledged,
    TransactionUnderWay,
)
from strandline.logs.kafka_topic import (
    KAFKA_ASK_MS,
    KAFKA_ATTEMPT_MS,
    KAFKA_LAG_MS,
    KAFKA_PAUSE_MS,
    KAFKA_SOCKET_MS,
    QUIET,
    Settings,
    Topic,
    client_of,
    connecting,
)
from strandline.paced_log import PacedLog, Waiting

KAFKA_STEP_MS: Final = 50  # one step of a wait for reports: the wait ends at most this long after the last of them
KAFKA_DELIVERY_MS: Final = 120_000  # a producer's own default: after that an event is acknowledged or has failed
KAFKA_COMMIT_MS: Final = 60_000  # how long a commit is repeated
KAFKA_INTERRUPTED_MS: Final = 1_000  # how long an abort may take after an interrupt
KAFKA_CLOSE_MS: Final = 10_000  # how long closing waits for events under way

# Java's partitioner, so that a key goes to the partition to which other producers send it.
DEFAULTS: Final = {
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "message.max.bytes": EVENT_BYTES + EVENT_OVERHEAD_BYTES,
    "linger.ms": 5,
    "socket.timeout.ms": KAFKA_SOCKET_MS,
}
REFUSED: Final = (  # with these, an event is certainly not in the log
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
)
PURGED: Final = KafkaError(KafkaError._PURGE_QUEUE).str()
FENCED: Final = (
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
)
MEMO_GROUP: Final = "strandline-memo-"  # the consumer group that keeps a memo beside its committed offset
Callback = Callable[[KafkaError | None, Message], None]
ANY_PARTITION: Final = -1  # confluent-kafka's number for the partition of the key
CALLBACK_PLACES: Final = (3, 4)  # the indexes of `callback` and `on_delivery` in the arguments after the topic


class KafkaLog:
    """The append side of a topic. Threads may share one.

        log = KafkaLog.connect("127.0.0.1:9092", "orders")

    If Kafka does not acknowledge an event within `delivery.timeout.ms` (two minutes), the next `flush` raises
    NotAcknowledged; appends go on. So, without a transactional id, an append may be taken in part. With one it is all
    or nothing, and a newer log object with the same id fences the older one, whose calls then raise LogFenced.
    """

    def __init__(self, producer: TrackedProducer, topic: str) -> None:
        """The log of a topic to which a producer sends; every event that it sends there counts."""
        self._producer = producer
        self._topic = Topic(topic, producer.settings)
        self._deliveries = producer.deliveries(topic)
        self._identity: str | None = None  # of the topic, as of the last look at its ends
        self.failures_raised = 0  # events whose failure one of the callers of `flush` got
        self._partitions: frozenset[str] = frozenset()
        self._open = OpenTransactions()
        self._origin = OwningProcess(f"the log object for {self._topic.path}")

    @classmethod
    def connect(
        cls,
        servers: str,
        topic: str,
        *,
        transactional_id: str | None = None,
        settings: Settings | None = None,
        commit_timeout_ms: int = KAFKA_COMMIT_MS,
    ) -> Self:
        """Opens an existing topic, with a producer of its own. Raises TopicMissing, and LogUnavailable.

        `settings` are librdkafka's; the producer must stay idempotent.
        """
        given: dict[str, Any] = {**DEFAULTS, **(settings or {}), "bootstrap.servers": servers}
        if str(given["enable.idempotence"]).lower() != "true":
            wanted = "true: a message that is sent again must not be in the log twice, nor out of order"
            raise InvalidSetting(name="enable.idempotence", value=given["enable.idempotence"], wanted=wanted)
        if transactional_id is not None:
            given["transactional.id"] = transactional_id
        longest = str(given.get("transaction.timeout.ms", ""))
        if longest.isdecimal() and "socket.timeout.ms" not in (settings or {}):
            given["socket.timeout.ms"] = min(int(longest), KAFKA_SOCKET_MS)  # librdkafka takes no more
        producer = TrackedProducer(given)
        log = cls(producer, topic)
        log._known_partitions()
        producer.serve(log._topic, commit_timeout_ms)
        return log

    # -- the Log protocol --------------------------------------------------------------------------------------

    def append(self, events: Iterable[Event]) -> Position:
        """Sends events. Waits while the producer's queue is full.

        Returns the position behind them with a transactional id, else nothing: `flush` returns it later. Raises
        UnknownSegment or InvalidEvent, and then sends none of them. `flush` raises if Kafka does not take an event.
        """
        self._origin.check()
        rows = self._checked(events)
        if not rows:
            return {}
        if self._producer.transactional_id is not None:
            return self._producer.transact(self._topic, rows, None)
        self._producer.send(self._topic, rows)
        self._producer.poll(0)
        return {}

    def flush(self) -> Position:
        """Waits for the reports of the events sent so far, at most about `delivery.timeout.ms`. Raises NotAcknowledged
        for failed events, once. Events of an open transaction count with its commit, which waits for them."""
        self._origin.check()
        try:
            return self._producer.settle(self._topic)
        except NotAcknowledged as error:
            self.failures_raised += error.count
            raise

    def positions(self) -> Position:
        self._origin.check()
        return self._deliveries.positions()

    @property
    def sent(self) -> int:
        """How many events were sent so far, by whomever."""
        return self._deliveries.sent

    @property
    def is_written_beside(self) -> bool:
        """Whether the program has the producer, so that it also sends events without the writer."""
        return not self._producer.is_ours

    def in_transaction(self, besides: Transaction | None = None) -> bool:
        """See `Log.in_transaction`. A transaction that the owner of the producer has begun counts too."""
        return self._producer.is_in_programs_transaction or self._open.has_others(besides)

    def end_offsets(self) -> Position:
        """The high watermark of each partition, one after the other: Kafka has no common moment for all of them. Waits
        while a partition has too few in-sync replicas. If the topic is another one of its name by now, the positions
        in the earlier one are forgotten."""
        identity = self._topic.identity()
        if self._identity is not None and identity != self._identity:
            self._deliveries.forget()
        self._identity = identity
        return self._topic.ends_for_notes()

    def truncate(self, head: Position) -> Position:
        """Makes Kafka remove the events below these offsets: see `Topic.truncate`."""
        return self._topic.truncate(head)

    def begin(self) -> Transaction:
        """A transaction. Its events wait in memory, so that it makes no reader wait before its commit."""
        self._origin.check()
        if self._producer.transactional_id is None:
            raise InvalidSetting(name="transactional.id", value=None, wanted="transactions need one")
        transaction = KafkaTransaction(self._producer, self._topic, self._checked)
        self._open.add(transaction)
        return transaction

    def memo(self, name: str) -> str | None:
        """The last memo of a name. Kafka keeps it for `offsets.retention.minutes` (a week) after the last commit with a
        memo. Without a transactional id there are no commits, and so no memos."""
        return None if self._producer.transactional_id is None else self._topic.memo(MEMO_GROUP + name)

    def close(self) -> None:
        """Waits a few seconds for events under way, and then gives them up. A producer given by the caller stays
        open."""
        if self._origin.is_here:  # else the parent still uses it
            self._producer.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked(self, events: Iterable[Event]) -> list[Event]:
        rows = list(events)
        for event in rows:
            check_size(event)
            if event.segment is not None and event.segment not in self._partitions:
                known = self._known_partitions()  # some may have been added
                if event.segment not in known:
                    raise UnknownSegment.among(sorted(known), event.segment)
        return rows

    def _known_partitions(self) -> frozenset[str]:
        """The present partitions. On return the producer knows them too."""
        numbers = self._topic.partitions()
        self._producer.learn(self._topic, max(numbers))
        self._partitions = frozenset(map(str, numbers))
        return self._partitions


class KafkaTransaction(BufferedTransaction):
    """Events that appear in the log all at once. They wait in memory until `commit`, at most TRANSACTION_BYTES."""

    def __init__(
        self, producer: TrackedProducer, topic: Topic, checked: Callable[[Iterable[Event]], list[Event]]
    ) -> None:
        def append(events: list[Event], memo: Memo | None) -> Position:
            return producer.transact(topic, checked(events), memo) if events or memo is not None else {}

        super().__init__(append)
        self._producer = producer

    def commit(self, memo: Memo | None = None) -> Position:
        """Makes all events durable, and soon visible: Kafka answers before every partition has the commit's marker.

        After an error nothing is written, and the commit can be repeated. But after LogUndecided, or an interrupt while
        Kafka commits, the transaction is over, and `flush` of the log finds out how it ended.
        """
        try:
            return super().commit(memo)
        except BaseException:
            if self._producer.is_undecided:
                self._end("committed, perhaps,")
            raise


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
        self.transactional_id: str | None = self.settings.get("transactional.id")
        self.is_ours = False  # then it serves one log alone, and may be renewed
        self._callback: Callback | None = self.settings.get("on_delivery")
        self._producer = client_of(Producer, _at_a_pace(self.settings)) if producer is None else producer
        self._origin = OwningProcess(f"a Kafka producer for {self.settings.get('bootstrap.servers', '')}")
        self._origin.keep(self._producer)
        self._deliveries: dict[str, Deliveries] = {}
        self._logs: dict[str, KafkaLog] = {}
        self._waits = PacedLog("strandline")
        self._commit_timeout_ms = KAFKA_COMMIT_MS
        self._turn = threading.RLock()  # appends of logs and transactions take turns
        self._in_transaction = False
        self._ending: str | None = None  # the call that is to end the transaction
        self._transacting = False  # within a transaction of a log
        self._unsettled: Callable[[Topic], object] | None = None  # a log's commit or abort that was not answered

    def log(self, topic: str) -> KafkaLog:
        """A topic as the log of a Writer: the positions of notes come from what this producer has sent there."""
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
        arguments = list(given)
        callback = named.pop("callback", None) or named.pop("on_delivery", None)
        for place in CALLBACK_PLACES:
            if len(arguments) > place and callable(arguments[place]):
                callback, arguments[place] = callback or arguments[place], None
        self._produce(topic, None, callback, arguments, named)

    def _produce(
        self, topic: str, event: Event | None, callback: Callback | None, given: list[Any], named: dict[str, Any]
    ) -> None:
        self._origin.check()
        delivery = self.deliveries(topic).sending(event)
        report = partial(_report, delivery, callback or self._callback)
        if len(given) > CALLBACK_PLACES[0]:
            given[CALLBACK_PLACES[0]] = report
        else:
            named["on_delivery"] = report
        try:
            self._producer.produce(topic, *given, **named)
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

    def begin_transaction(self) -> None:
        self._origin.check()
        self._producer.begin_transaction()
        self._in_transaction, self._ending = True, None
        for each in list(self._deliveries.values()):
            each.begin()

    def commit_transaction(self, *timeout: float) -> None:
        """Commits. Events of the transaction count as acknowledged when this returns, and not before."""
        self._end_by("commit_transaction", timeout)
        self._ended(Deliveries.commit)

    def abort_transaction(self, *timeout: float) -> None:
        self._end_by("abort_transaction", timeout)
        self._ended(Deliveries.abort)

    def _end_by(self, call: str, timeout: tuple[float, ...]) -> None:
        self._origin.check()
        repeated, self._ending = self._ending == call, call
        try:
            getattr(self._producer, call)(*timeout)
        except KafkaException as error:
            # The call before has ended it, and was interrupted before that was recorded here.
            if not (repeated and self._in_transaction and error.args[0].code() == KafkaError._STATE):
                raise

    def _ended(self, end: Callable[[Deliveries], object]) -> None:
        self._in_transaction = False
        for each in list(self._deliveries.values()):
            end(each)

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

    # -- for logs: sending, and waiting --------------------------------------------------------------------------

    def serve(self, topic: Topic, commit_timeout_ms: int) -> None:
        """Becomes the producer of one log. Fences every older producer with this transactional id, and ends its
        transaction: from here on none of them can append."""
        self.is_ours = True
        if self.transactional_id is not None:
            self._call(topic, self._producer.init_transactions)
        self._commit_timeout_ms = commit_timeout_ms

    def learn(self, topic: Topic, partition: int) -> None:
        """Asks for partitions until the client knows this one. It refuses an unknown partition, and asks by itself
        only every few minutes; the broker that it asks may not have a new one at first."""
        deadline = time.monotonic() + KAFKA_ASK_MS / 1000
        while True:
            try:
                listed = self._producer.list_topics(topic=topic.name, timeout=KAFKA_ATTEMPT_MS / 1000)
                if partition in listed.topics[topic.name].partitions:
                    return
                reason = f"its partition {partition} is not known to the producer's broker"
            except KafkaException as error:
                reason = error.args[0].str()
            if time.monotonic() > deadline:
                raise LogUnavailable(path=topic.path, reason=reason)
            time.sleep(KAFKA_PAUSE_MS / 1000)

    def send(self, topic: Topic, events: Sequence[Event]) -> None:
        """Sends events of a log. Those that cannot be sent fail, and the log gets them back: the events before them are
        under way, so this cannot raise."""
        with self._turn:
            for number, event in enumerate(events):
                try:
                    self._send_one(topic, event)
                except (BufferError, KafkaException) as error:
                    reason = self._reason_of(error)
                    for each in events[number:]:
                        self.deliveries(topic.name).sending(each).failed(reason)
                    break

    def _send_one(self, topic: Topic, event: Event) -> None:
        deadline = time.monotonic() + KAFKA_DELIVERY_MS / 1000
        # By name: a SerializingProducer has the key before the value.
        partition = ANY_PARTITION if event.segment is None else int(event.segment)
        named = {"value": event.value, "key": event.key, "partition": partition}
        while True:
            try:
                self._produce(topic.name, event, None, [], named)
                return
            except BufferError:
                # Delivery reports make room: each event in the queue is acknowledged or fails in time.
                if time.monotonic() > deadline:
                    raise
                self._producer.poll(KAFKA_STEP_MS / 1000)

    def _reason_of(self, error: BufferError | KafkaException) -> str:
        """Why an event could not be sent. A producer of ours that can do nothing more is renewed."""
        if isinstance(error, BufferError):
            return "the producer's queue stayed full"
        reason: str = error.args[0].str()
        if error.args[0].code() == KafkaError._FATAL and self.transactional_id is None:
            if not self.is_ours:
                return f"{reason}; this producer has ended, make a new one"
            self._renew()
        return reason

    def settle(self, topic: Topic) -> Position:
        """Waits until every event of a topic that was sent before is acknowledged or has failed; returns how far they
        are acknowledged. See `KafkaLog.flush`."""
        deliveries = self.deliveries(topic.name)
        if self.transactional_id is not None:
            with self._turn:
                self._settle(topic)
                if self._in_transaction:
                    return deliveries.positions()  # everything before it was committed or aborted
        self._wait(topic)
        failures = deliveries.take_failures(hidden_until=time.monotonic() + KAFKA_LAG_MS / 1000)
        if failures:
            raise NotAcknowledged(
                path=topic.path, count=failures.count, reason=failures.reason, events=tuple(failures.events)
            )
        if deliveries.doubtful:
            self._pass_doubtful(topic)
        return deliveries.positions()

    def _wait(self, topic: Topic) -> None:
        deliveries = self.deliveries(topic.name)
        is_over = deliveries.wait()
        waiting = Waiting(self._waits)
        waiting.begins()
        deadline = time.monotonic() + 2 * KAFKA_DELIVERY_MS / 1000
        while not is_over():
            try:
                self._producer.flush(KAFKA_STEP_MS / 1000)
            except KafkaException:  # a fenced producer: its events under way are reported as failed
                self._producer.poll(KAFKA_STEP_MS / 1000)
            if count := deliveries.under_way():
                waiting.goes_on(f"waiting for Kafka at {topic.servers}, topic {topic.name!r}: {count} events")
            if time.monotonic() > deadline:
                reason = f"{deliveries.under_way()} reports have not come in {2 * KAFKA_DELIVERY_MS} ms"
                raise LogUnavailable(path=topic.path, reason=reason)

    def _pass_doubtful(self, topic: Topic) -> None:
        """Moves positions past failed events to the present end: an event may be in the log if only its report was
        lost. Until they are there, the segments stay doubtful, for all threads."""
        deliveries = self.deliveries(topic.name)
        doubtful = dict(deliveries.doubtful)
        ends = topic.ends_for_notes(doubtful)
        deliveries.raise_to({segment: end for segment, end in ends.items() if segment in doubtful}, doubtful)

    def finish(self) -> None:
        """Waits a few seconds for events under way, and then gives them up. Closes a producer of ours."""
        with suppress(KafkaException):  # a fenced producer raises here, with nothing under way
            self._producer.flush(KAFKA_CLOSE_MS / 1000)
            # Older releases of the client close it when it is garbage-collected.
            if self.is_ours and self._unsettled is None and hasattr(self._producer, "close"):
                self._producer.close()

    def _renew(self) -> None:
        """Goes on with a new client after a failure with which this one cannot. An open transaction is over."""
        self._producer.purge()
        deadline = time.monotonic() + KAFKA_CLOSE_MS / 1000
        while len(self._producer) and time.monotonic() < deadline:  # until its events are reported as failed
            with suppress(KafkaException):  # each call reports again what happened
                self._producer.poll(KAFKA_STEP_MS / 1000)
        self._producer = client_of(Producer, _at_a_pace(self.settings))
        self._origin.keep(self._producer)
        if self.transactional_id is not None:
            self._ended(Deliveries.abort)

    # -- for logs: transactions ----------------------------------------------------------------------------------

    @property
    def is_in_programs_transaction(self) -> bool:
        """Whether the program has begun a transaction."""
        return self._in_transaction and not self._transacting and self._unsettled is None

    @property
    def is_undecided(self) -> bool:
        """Whether it is not known yet if the last commit was carried out."""
        return self._unsettled == self._commit

    def transact(self, topic: Topic, events: Sequence[Event], memo: Memo | None, *, again: bool = True) -> Position:
        """Writes events and a memo in one transaction; returns the position behind them. After an error none are in the
        log, unless it `is_undecided`.

        After a transaction with an event that Kafka refused, librdkafka fails the next one, so that is repeated once.
        """
        self._origin.check()
        with self._turn:
            self._settle(topic)
            if self._in_transaction:
                raise TransactionUnderWay(call="an append")
            self._transacting = True
            try:
                self._call(topic, lambda _: self.begin_transaction())
                try:
                    self._fill(topic, events, memo)
                except Exception:
                    self._abort(topic)
                    raise
                except BaseException:  # an interrupt, which is not to wait until Kafka is back
                    with suppress(StrandlineError):
                        self._abort(topic, KAFKA_INTERRUPTED_MS)
                    raise
                before = self.deliveries(topic.name).positions()
                self._commit(topic)
            except LogUnavailable as error:
                if again and error.reason == PURGED:
                    return self.transact(topic, events, memo, again=False)
                raise
            finally:
                self._transacting = False
            return dict(self.deliveries(topic.name).positions().items() - before.items())

    def _fill(self, topic: Topic, events: Sequence[Event], memo: Memo | None) -> None:
        """Puts events and a memo into the transaction, and waits for the events."""
        self.send(topic, events)
        self._wait(topic)
        failures = self.deliveries(topic.name).take_failures()
        if failures:
            raise LogUnavailable(path=topic.path, reason=failures.reason)
        if memo is not None:  # as the metadata of an offset, which is committed with the events
            with_text = TopicPartition(topic.name, 0, 0, memo.text)
            consumer = Consumer({**QUIET, **connecting(self.settings), "group.id": MEMO_GROUP + memo.name})
            try:
                group = consumer.consumer_group_metadata()
                self._call(topic, self._producer.send_offsets_to_transaction, [with_text], group)
            finally:
                consumer.close()

    def _commit(self, topic: Topic) -> None:
        self._unsettled = self._commit
        try:
            self._repeat(self.commit_transaction)
        except KafkaException as error:
            reason = error.args[0].str()
            # Kafka has no such transaction any more if it is in another state: it was aborted meanwhile.
            if not (error.args[0].txn_requires_abort() or error.args[0].code() == KafkaError.INVALID_TXN_STATE):
                raise LogUndecided(path=topic.path, reason=reason) from error
            self._abort(topic)
            raise LogUnavailable(path=topic.path, reason=reason) from error
        self._unsettled = None

    def _abort(self, topic: Topic, within_ms: int | None = None) -> None:
        self._unsettled = self._abort
        try:
            self._repeat(self.abort_transaction, within_ms=within_ms)
        except KafkaException as error:
            if within_ms is not None or not (error.args[0].fatal() and self.is_ours):
                raise LogUnavailable(path=topic.path, reason=error.args[0].str()) from error
            # Kafka has aborted it after `transaction.timeout.ms`, and the client cannot go on.
            self._renew()
            self._unsettled = self._has_ended  # unless that is done now: later it might fence a newer log object
            self._call(topic, self._producer.init_transactions)
        self._unsettled = None

    def _has_ended(self, topic: Topic) -> None:
        raise LogFenced(transactional_id=str(self.transactional_id))

    def _settle(self, topic: Topic) -> None:
        """Finishes the commit or abort of an earlier call whose outcome is not known."""
        if self._unsettled is not None:
            self._unsettled(topic)

    def _call(self, topic: Topic, call: Callable[..., Any], *given: Any) -> None:
        """Calls the client, and repeats the call while that may help. Raises LogFenced and LogUnavailable."""
        try:
            self._repeat(call, *given)
        except KafkaException as error:
            raise LogUnavailable(path=topic.path, reason=error.args[0].str()) from error

    def _repeat(self, call: Callable[..., Any], *given: Any, within_ms: int | None = None) -> None:
        timeout_ms = self._commit_timeout_ms if within_ms is None else min(within_ms, self._commit_timeout_ms)
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            try:
                call(*given, min(KAFKA_ATTEMPT_MS, timeout_ms) / 1000)
                return
            except KafkaException as error:
                if error.args[0].code() in FENCED:
                    raise LogFenced(transactional_id=str(self.transactional_id)) from error
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise


class _ClientLog:
    """What librdkafka logs, at a pace: some twenty lines a second for a broker that is away."""

    def __init__(self) -> None:
        self._log = PacedLog("strandline.kafka")

    def log(self, level: int, text: str, *given: object) -> None:
        """Is called by the producer's `poll` and `flush`; the first of `given` is the kind of the line."""
        if level >= logging.WARNING:
            self._log.warn(str(given[:1]), f"Kafka's client: {text % given}")


def _at_a_pace(settings: Settings) -> dict[str, Any]:
    """The settings, with our own log unless they say how to log."""
    if any(name.startswith(("log", "debug")) for name in settings):
        return dict(settings)
    return {**settings, "logger": _ClientLog()}


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
        may_be_there = partition is not None and partition >= 0 and error.code() not in REFUSED
        delivery.failed(error.str(), str(partition) if may_be_there else None)
    elif offset is None or offset < 0:
        delivery.failed("its report has no offset: the producer's acks must be all", str(partition))
    else:
        delivery.acknowledged(str(partition), offset)
    if callback is not None:
        callback(error, message)
