"""Drawn histories of writers over Kafka: logs with a producer of their own, and producers of a program, whose own
events and transactions stand beside what the writer writes. One such producer serves two topics. Topics are made anew.

Where the brokers are a history's own, they are killed and started again, and for a while nobody gets their answers: so
events fail that are in the topic by then, or arrive later, and commits whose outcome is unknown have been carried out.

After each step every complete mark, and its `newest`, is compared with what a consumer reads from the topic. A process
that is killed has sent what it had to send, and noted nothing of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final
from unittest.mock import patch

from confluent_kafka import KafkaException

from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.config import StreamConfig
from strandline.core.note import position_cut
from strandline.errors import StrandlineError
from strandline.logs import Event
from strandline.logs.kafka import KAFKA_COMMIT_MS, KafkaLog, TrackedProducer
from strandline.logs.kafka_reader import KafkaLogReader
from tests.drawn import Draw, Suite
from tests.histories.history import Checked, Untrue, Written
from tests.kafka import Kafka
from tests.served import served
from tools.jars import fetched
from writer_client import BackgroundWriter, Writer
from writer_client.machine import Phase

NAMES: Final = ("w1", "w2")
STEPS: Final = 40
# After so long without an answer an event has failed, and the outcome of a commit is unknown.
GIVES_UP_MS: Final = 1_000
IMPATIENT: Final = {"delivery.timeout.ms": GIVES_UP_MS, "socket.timeout.ms": GIVES_UP_MS}
LAG_MS: Final = 5_000  # for KAFKA_LAG_MS: these brokers miss one that lags after three seconds
HISTORIES: Final = count(1)  # a topic is one history's, also where two of them have a seed
KINDS: Final = ("plain", "transactional", "given", "given, transactional")
AT_ONCE: Final = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None)


@dataclass
class Topic:
    """A topic with its stream, and what was written to it and said of it since it was made."""

    name: str
    events: list[Written] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    marks: dict[int, Checked] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


@dataclass
class Process:
    """One process of a writer's name, with a writer for each topic that its producer serves."""

    name: str
    kind: str
    producer: TrackedProducer | None
    writers: dict[str, Any]
    logs: dict[str, KafkaLog]
    bounds: dict[str, int] = field(default_factory=dict)  # it writes nothing older
    in_transaction: bool = False
    committing: bool = False  # its producer's commit was not answered


@dataclass
class KafkaHistory:
    """One history."""

    drawn: Draw
    kafka: Kafka
    connection: Connection
    down: int | None = None  # the broker that is killed
    processes: dict[str, Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = self.drawn.random
        self.highest = 0
        history = next(HISTORIES)
        self.topics = [Topic(f"history-{history}-{number}") for number in range(2)]
        self.servers = self.kafka.wired_servers or self.kafka.servers
        self.impatient = IMPATIENT if self.kafka.wires else {}
        self.unanswered = False

    def run(self) -> None:
        for topic in self.topics:
            self.kafka.create_topic(topic.name, 2)
            self.connection.run(calls.create_stream(topic.name, "open", AT_ONCE))
        try:
            for _ in self.drawn.steps(STEPS):
                self.step()
        finally:
            self.start_broker()
            for name in list(self.processes):
                self.kill(name)

    def step(self) -> None:
        name, topic = self.random.choice(NAMES), self.random.choice(self.topics)
        acts: list[tuple[int, Callable[[str, Topic], None]]] = [
            (3, self.begin),
            (12, self.write),
            (10, self.note),
            (4, self.commit),
            (4, self.idle),
            (2, self.leave),
            (3, lambda name, topic: self.kill(name)),
            (3, self.mark_by_another),
            (1, self.recreate),
        ]
        if self.kafka.wires:  # its own
            acts += [(1, self.kill_broker), (4, self.give_up), (4, self.commit)]
        act = self.random.choices([each for _, each in acts], [weight for weight, _ in acts])[0]
        act(name, topic)
        for each in self.topics:
            self.check(each)

    def say(self, what: str) -> None:
        self.drawn.say(what)

    # -- writers -------------------------------------------------------------------------------------------------

    def begin(self, name: str, topic: Topic) -> None:
        self.kill(name)
        kind = self.random.choice(KINDS)
        own_id = f"{self.drawn.seed}-{name}" if "transactional" in kind else None
        producer = None
        if kind.startswith("given"):
            given = {"bootstrap.servers": self.servers, **self.impatient}
            settings = {**given, **({} if own_id is None else {"transactional.id": own_id})}
            producer = TrackedProducer(settings)
            if own_id is not None:
                producer.init_transactions(30)
            logs = {each.name: producer.log(each.name) for each in self.topics}
        else:
            log = KafkaLog.connect(
                self.servers,
                topic.name,
                transactional_id=own_id,
                settings=self.impatient,
                commit_timeout_ms=GIVES_UP_MS if self.kafka.wires else KAFKA_COMMIT_MS,
            )
            logs = {topic.name: log}
        writer = self.random.choice((Writer, BackgroundWriter))
        writers = {each: writer(self.connection, each, name, log=log) for each, log in logs.items()}
        self.processes[name] = Process(name, kind, producer, writers, logs)
        self.say(f"{name} begins: {kind}, {writer.__name__}")

    def attempt(self, name: str, topic: Topic, what: Callable[[Process, Any], object]) -> None:
        """Calls a writer of a process, if it has one for this topic; it registers first."""
        if name not in self.processes:
            self.begin(name, topic)
        process = self.processes[name]
        if topic.name not in process.writers:
            return
        writer = process.writers[topic.name]
        try:
            if writer._machine.phase is not Phase.HOLDING:
                writer.register()
                floor = writer.floors.get("")
                process.bounds[topic.name] = max(process.bounds.get(topic.name, 0), floor if floor is not None else 0)
                topic.names.add(name)
            what(process, writer)
            said = "done"
        except (StrandlineError, KafkaException) as error:
            said = f"{type(error).__name__}: {str(error)[:160]}"
            if isinstance(error, KafkaException) and error.args[0].fatal():
                self.kill(name)
        self.say(f"{name} on {topic.name}: {said}")

    def draw(self, process: Process, topic: Topic) -> tuple[int, bytes, int]:
        time = process.bounds.get(topic.name, 0) + self.random.choice((0, 1, 5, 40))
        return time, json.dumps([time, process.name]).encode(), self.random.randrange(2)

    def write(self, name: str, topic: Topic) -> None:
        """By the writer, or by the producer that the program has."""

        def write(process: Process, writer: Any) -> None:
            if process.committing:
                self.end_transaction(process, commits=True)
            time, value, partition = self.draw(process, topic)
            own = self.random.random() < 0.6 or process.in_transaction or self.unanswered
            if process.producer is not None and own:
                if "transactional" in process.kind and not process.in_transaction:
                    process.producer.begin_transaction()
                    process.in_transaction = True
                process.producer.produce(topic.name, value=value, partition=partition)
                process.producer.poll(0)
            else:
                newest = time if self.random.random() < 0.6 else None
                writer.write([Event(value, segment=str(partition))], newest=newest)
            self.say(f"{name} writes {time} to {topic.name}/{partition}")

        self.attempt(name, topic, write)

    def commit(self, name: str, topic: Topic) -> None:
        """Ends the producer's own transaction, or has one of the writer's."""

        def commit(process: Process, writer: Any) -> None:
            if process.in_transaction:
                self.end_transaction(process, commits=process.committing or self.random.random() < 0.7)
            elif "transactional" in process.kind:
                with self.perhaps_unanswered(process.producer is None), writer.begin() as transaction:
                    time, value, partition = self.draw(process, topic)
                    transaction.write([Event(value, segment=str(partition))])
                    noted = time if self.random.random() < 0.7 else None
                    if noted is not None:
                        process.bounds[topic.name] = self.highest = max(self.highest, time)
                    self.say(f"{name} commits {time} with {noted}")
                    transaction.commit(noted)

        self.attempt(name, topic, commit)
        self.note(name, topic)

    def end_transaction(self, process: Process, *, commits: bool) -> None:
        """The end of a producer's own transaction. The program repeats a commit that was not answered later, and aborts
        where Kafka wants that."""
        assert process.producer is not None
        self.say(f"the producer of {process.name} {'commits' if commits else 'aborts'}")
        try:
            if commits:
                with self.perhaps_unanswered(not process.committing) as unanswered:
                    process.committing = True
                    process.producer.commit_transaction(GIVES_UP_MS / 1000 if unanswered else 30)
            else:
                process.producer.abort_transaction(30)
        except KafkaException as error:
            self.say(f"it gets {error.args[0].name()}")
            if error.args[0].txn_requires_abort():
                process.committing = False
                process.producer.abort_transaction(30)
            elif commits and error.args[0].retriable():
                return
            else:
                raise
        process.in_transaction = process.committing = False

    def settle(self, process: Process) -> None:
        """Ends a transaction that its producer is at, and waits for its events, unless the producer can do nothing."""
        with suppress(KafkaException):
            if process.in_transaction:
                self.end_transaction(process, commits=process.committing or self.random.random() < 0.5)
        with suppress(KafkaException):
            for log in process.logs.values():
                log._producer.flush(30)

    @contextmanager
    def perhaps_unanswered(self, may_be: bool) -> Iterator[bool]:
        """Perhaps nobody gets the broker's answer to the end of a transaction."""
        unanswered = may_be and bool(self.kafka.wires) and self.random.random() < 0.3
        if unanswered:
            self.say("what comes next is not answered")
            for wire in self.kafka.wires:
                wire.lose_answers_to_the_end_of_a_transaction()
        try:
            yield unanswered
        finally:
            for wire in self.kafka.wires if unanswered else ():
                wire.pass_on()

    def note(self, name: str, topic: Topic) -> None:
        def note(process: Process, writer: Any) -> None:
            if writer.status().failed_write and self.random.random() < 0.8:
                writer.resume()  # what failed is not written again
            time = max(process.bounds.get(topic.name, 0), self.highest - self.random.choice((0, 20)))
            time += self.random.choice((0, 3, 30))
            newest = time + 50 if self.random.random() < 0.2 and not topic.events else None
            writer.note_time(time, newest=newest)
            self.say(f"{name} notes {time}")
            process.bounds[topic.name], self.highest = time, max(self.highest, time)
            if isinstance(writer, BackgroundWriter):
                writer.wait_until_answered(2 * GIVES_UP_MS if self.kafka.wires else 20_000)

        self.attempt(name, topic, note)

    def idle(self, name: str, topic: Topic) -> None:
        """Others go on meanwhile."""
        self.attempt(name, topic, lambda process, writer: writer.idle())
        self.mark_by_another(name, topic)

    def leave(self, name: str, topic: Topic) -> None:
        def leave(process: Process, writer: Any) -> None:
            writer.close()
            del process.writers[topic.name]

        self.attempt(name, topic, leave)

    def kill(self, name: str) -> None:
        process = self.processes.pop(name, None)
        if process is None:
            return
        self.say(f"{name} is killed")
        self.settle(process)  # the broker ends it when the next producer of its id begins, or in a minute
        for writer in process.writers.values():
            writer._machine.phase = Phase.RELEASED
            with suppress(StrandlineError):
                writer.release()
        for log in process.logs.values():
            log.close()

    # -- others --------------------------------------------------------------------------------------------------

    def mark_by_another(self, name: str, topic: Topic) -> None:
        self.highest += 10
        self.say(f"another notes {self.highest} on {topic.name}")
        with Writer(self.connection, topic.name, "another", leaving="close") as another, suppress(StrandlineError):
            another.note_time(self.highest, {})

    def recreate(self, name: str, topic: Topic) -> None:
        """The topic and its stream are made anew. Processes that are at a transaction end it before that."""
        for process in self.processes.values():
            self.settle(process)
        self.kafka.recreate_topic(topic.name, 2)
        self.connection.run(calls.delete_stream(topic.name))
        self.connection.run(calls.create_stream(topic.name, "open", AT_ONCE))
        self.say(f"{topic.name} is made anew")
        self.topics[self.topics.index(topic)] = Topic(topic.name)
        for process in self.processes.values():
            if topic.name in process.writers:  # as its next note would be told
                process.writers[topic.name]._machine.phase = Phase.AWAY

    def give_up(self, name: str, topic: Topic) -> None:
        """All write while nobody gets an answer: what they send arrives, now or once they have given it up."""
        later = self.random.random() < 0.5
        self.say(f"{'no request arrives' if later else 'no answer arrives'}")
        self.unanswered = True
        for wire in self.kafka.wires:
            if later:
                wire.hold()
            else:
                wire.lose_answers()
        for process in self.processes.values():
            for each in self.topics:
                if each.name in process.writers and process.writers[each.name]._machine.phase is Phase.HOLDING:
                    self.write(process.name, each)
        for process in self.processes.values():
            for log in process.logs.values():
                log._producer.flush(3 * GIVES_UP_MS / 1000)
        for wire in self.kafka.wires:
            wire.pass_on()
        self.unanswered = False

    def kill_broker(self, name: str, topic: Topic) -> None:
        """Kills one while events are on their way, which it may have or not. Of several, another takes over, and the
        killed one comes back later."""
        if self.down is not None:
            self.start_broker()
            return
        for each in self.topics:
            for name in NAMES:
                self.write(name, each)
        self.down = self.random.randint(1, self.kafka.count)
        self.kafka.kill(self.down)
        self.say(f"broker {self.down} is killed")
        if self.kafka.count == 1:
            self.start_broker()

    def start_broker(self) -> None:
        if self.down is not None:
            self.kafka.start(self.down)
            self.say(f"broker {self.down} starts again")
            self.down = None

    # -- what has to hold ----------------------------------------------------------------------------------------

    def check(self, topic: Topic) -> None:
        with KafkaLogReader(self.kafka.servers, topic.name) as reader:
            for segment, end in reader.end_offsets().items():
                begin = topic.seen.get(segment, 0)
                for row in reader.rows(segment, begin, end) if begin < end else ():
                    time, name = json.loads(row.value or b"")
                    topic.events.append(Written(segment, row.offset, time, name))
                topic.seen[segment] = max(begin, end)
        page = self.connection.run(calls.marks(topic.name, after=max(topic.marks, default=0), limit=1000))
        for mark in page.marks:
            topic.marks[mark.seq] = Checked.of(mark, position_cut(mark.cut), topic.names, topic.events)
            self.say(f"{topic.name}: mark {mark.seq} of {mark.time} at {dict(mark.cut)}, newest {mark.newest}")
        for seq, checked in topic.marks.items():
            checked.check(seq, topic.events)


def over(kafka: Kafka, connection: Connection | None = None, name: str = "kafka") -> Suite:
    """Histories over these brokers, which are killed and whose answers are lost if they are wired."""

    def run(draw: Draw) -> None:
        if connection is not None:
            KafkaHistory(draw, kafka, connection).run()
            return
        with served(draw.folder / "store.db") as own:
            KafkaHistory(draw, kafka, own).run()

    return Suite(name, run, Untrue)


@contextmanager
def over_own(name: str, brokers: int) -> Iterator[Suite]:
    kafka = Kafka(fetched("kafka"), brokers, wired=True)
    try:
        with patch("strandline.logs.kafka.KAFKA_LAG_MS", LAG_MS):
            yield over(kafka, name=name)
    finally:
        kafka.remove()


over_one_broker, over_three_brokers = partial(over_own, "kafka", 1), partial(over_own, "three-kafkas", 3)
