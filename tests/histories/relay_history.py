"""Drawn histories of producers that note by records, and of the relays that read these.

    producers ──events──► a topic for each stream ◄── ends ──┐
        └──records──► the topic of notes ──► relays ──notes──► the controller

Relays stop before each of their calls, and go on when the history says so. So one is paused at any step, for as long
as anything else takes: the group gives it up, and another reads its partitions; or it goes on, and was never missed.
They are killed, end in order, and there are two of them. Topics are made anew, with their streams or without, and lose
their ends; times go back; writers go idle, close and come back.

After each step every complete mark is compared with the topic's own events. A writer keeps its word: after it has come
back it writes when its note was taken, and nothing that is older than the marks of then.

The group and the topics are models of Kafka's, or Kafka's own (`relay_kafka.py`); the relay, its reading of the topic
and the controller are real. One thread is at work at a time: over the model a seed is the same history each time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from strandline.client import calls
from strandline.client.http import Connection
from strandline.client.retry import Patience
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.errors import StrandlineError
from strandline.logs import Position
from strandline.logs.errors import LogUnavailable
from strandline.logs.kafka_topic import Topic
from strandline.testing import InProcessController
from strandline.testing.faults import Fault
from tests.drawn import Draw, Suite
from tests.histories.history import Faulty, Untrue
from writer_client.relay.lines import Lines
from writer_client.relay.loop import Relay
from writer_client.relay.measures import RelayMeasures
from writer_client.relay.topic import NotesTopic

NAMES: Final = ("w1", "w2")
KEYS: Final = ("", "b")
RELAYS: Final = 2
PARTITIONS: Final = 2  # of the topic of notes, and of each stream's
STEPS: Final = 30
# Where a relay hangs: before it reads, before it acts on what it read, or before it says so to the group.
PLACES: Final = ("consume", "commit", "call register", "call register", "ends", "call notes", "call idle")
# By a writer's last word. A note that is repeated leaves a writer joined that was registered again before.
STATES: Final = {None: ("active", "behind", "joined"), "idle": ("idle",), "close": ("closed",)}
AT_ONCE: Final = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None)


class Killed(BaseException):
    """A relay was killed while it waited for its next step."""


class Gate:
    """Where a relay waits before each of its calls."""

    def __init__(self) -> None:
        self.at = "begin"
        self._dead = False
        self._go, self._there = threading.Semaphore(0), threading.Semaphore(0)

    def wait(self, at: str) -> None:
        if self._dead:
            raise Killed
        self.at = at
        self._there.release()
        self._go.acquire()
        if self._dead:
            raise Killed

    def end(self) -> None:
        """The relay has ended by itself."""
        self.at = "ended"
        self._there.release()

    def step(self) -> None:
        """Lets it make its call, and go on to the next one."""
        if self.at != "ended":
            self._go.release()
            self._there.acquire()

    def first(self) -> None:
        self._there.acquire()

    def kill(self) -> None:
        self._dead = True
        self._go.release()


@dataclass
class Message:
    """What a consumer gives."""

    of: int
    at: int
    text: bytes | None = None
    failure: KafkaError | None = None

    def partition(self) -> int:
        return self.of

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.text

    def error(self) -> KafkaError | None:
        return self.failure


@dataclass
class Group:
    """The topic of notes, and the group that reads it, as Kafka keeps them."""

    records: list[list[bytes]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    committed: dict[int, int] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)
    joined: int = 0
    killed: list[str] = field(default_factory=list)  # members of which the group finds that out later

    def join(self) -> str:
        self.joined += 1
        self.members.append(f"member-{self.joined}")
        return self.members[-1]

    def leave(self, name: str) -> None:
        if name in self.members:
            self.members.remove(name)
        self.owners = {each: owner for each, owner in self.owners.items() if owner != name}

    def wanted(self, name: str) -> set[int]:
        """The partitions that a member is to have."""
        place, count = self.members.index(name), len(self.members)
        return {each for each in range(len(self.records)) if each % count == place}


class GroupMember:
    """A consumer of the group, as librdkafka is one: it joins, gives up and gets partitions in `consume`, and notices
    there, sooner or later, that the group has given it up."""

    def __init__(self, group: Group, random: Random, gate: Gate) -> None:
        self.group, self.random, self.gate = group, random, gate
        self.name = ""
        self.positions: dict[int, int] = {}
        self.told: dict[int, int] = {}  # up to where it has said that a partition ends

    def subscribe(self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.on_assign, self.on_revoke, self.on_lost = on_assign, on_revoke, on_lost

    def consume(self, count: int, timeout: float) -> list[Message]:
        self.gate.wait("consume")
        group = self.group
        if group.killed and self.random.random() < 0.3:
            group.leave(group.killed.pop())
        if self.name and self.name not in group.members and self.random.random() < 0.4:
            return self._records()  # it has not heard that yet, and gets what it had asked for
        if self.name not in group.members:
            if self.name:
                self.on_lost(self, self._places(self.positions))
            self.positions, self.name = {}, group.join()
        wanted = group.wanted(self.name)
        if given := self.positions.keys() - wanted:
            self.on_revoke(self, self._places(given))
            for each in given:
                del self.positions[each], group.owners[each]
        new = {each for each in wanted if each not in group.owners}
        for each in new:
            group.owners[each] = self.name
            self.positions[each] = group.committed.get(each, 0)
            self.told.pop(each, None)
        self.on_assign(self, self._places(new))
        return self._records()

    def _records(self) -> list[Message]:
        found: list[Message] = []
        for each, position in sorted(self.positions.items()):
            records = self.group.records[each]
            some = self.random.choice((0, 1, 3, 100))
            for offset in range(position, min(len(records), position + some)):
                found.append(Message(each, offset, records[offset]))
                self.positions[each] = offset + 1
            if (
                self.positions[each] == len(records)
                and self.told.get(each) != len(records)
                and self.random.random() < 0.7
            ):
                self.told[each] = len(records)
                found.append(Message(each, len(records), failure=KafkaError(KafkaError._PARTITION_EOF)))
        return found

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        self.gate.wait("commit")
        if self.name not in self.group.members:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID))
        self.group.committed |= {each.partition: each.offset for each in offsets}
        return offsets

    def get_watermark_offsets(self, place: TopicPartition, *, cached: bool) -> tuple[int, int]:
        return 0, len(self.group.records[place.partition])

    def close(self) -> None:
        self.group.leave(self.name)

    def _places(self, partitions: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition("notes", each) for each in partitions]


class ModelTopic:
    """The topic of notes, as a relay asks where it ends."""

    name = path = "notes"

    def __init__(self, group: Group, gate: Gate) -> None:
        self.group, self.gate = group, gate

    def partitions(self) -> list[int]:
        return list(range(len(self.group.records)))

    def known_ends(self, partitions: Iterable[int]) -> tuple[Position, str]:
        self.gate.wait("ends of notes")
        return {str(each): len(self.group.records[each]) for each in partitions}, ""


class ModelKafka:
    """Topics and the group in memory."""

    streams: tuple[str, ...] = ("s1", "s2")

    def __init__(self, random: Random) -> None:
        self.group, self.random = Group(), random
        self.topics = {stream: [0] * PARTITIONS for stream in self.streams}  # where they end

    def ends(self, streams: Collection[str]) -> Mapping[str, Position | StrandlineError]:
        return {stream: {str(each): end for each, end in enumerate(self.topics[stream])} for stream in streams}

    def append(self, stream: str, partition: int, value: bytes) -> None:
        self.topics[stream][partition] += 1

    def recreate(self, stream: str) -> None:
        self.topics[stream] = [0] * PARTITIONS

    def lose_end(self, stream: str, partition: int, count: int) -> bool:
        """Whether it can lose events."""
        self.topics[stream][partition] -= count
        return True

    def send(self, partition: int, value: bytes) -> int:
        """Sends a record to the topic of notes; returns its offset."""
        self.group.records[partition].append(value)
        return len(self.group.records[partition]) - 1

    def sent(self) -> list[int]:
        return list(map(len, self.group.records))

    def committed(self) -> list[int]:
        return [self.group.committed.get(each, 0) for each in range(PARTITIONS)]

    def join(self, gate: Gate) -> tuple[Topic, Any]:
        """The topic of notes, and a consumer that reads it."""
        return cast(Topic, ModelTopic(self.group, gate)), GroupMember(self.group, self.random, gate)

    def give_up(self, member: Any) -> None:
        """The group does not hear of a member."""
        self.group.leave(member.name)

    def end(self, member: Any) -> None:
        """The process of a member has ended; perhaps the group finds that out only later."""
        if self.random.random() < 0.7:
            self.group.leave(member.name)
        else:
            self.group.killed.append(member.name)

    def end_all(self) -> None:
        self.group.members.clear()
        self.group.owners.clear()


class SteppedConnection:
    """Calls that wait for their step, and may not arrive, or not be answered."""

    def __init__(self, connection: Connection, network: Faulty, random: Random, gate: Gate) -> None:
        self.connection = connection
        self.network, self.random, self.gate = network, random, gate

    def run(self, call: Any) -> Any:
        self.gate.wait(f"call {call.__name__}")
        self.network.entry = self.random.choices((None, Fault.ANSWER_LOST, Fault.CONTROLLER_AWAY), (90, 7, 3))[0]
        self.network.once = self.random.random() < 0.5
        return self.connection.run(call)


@dataclass(frozen=True)
class Written:
    """An event, with its times by key."""

    partition: int
    times: Mapping[str, int]
    writer: str


@dataclass
class Told:
    """A stream and its topic, as long as it has been the same."""

    name: str
    events: list[list[Written]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    marks: dict[str, list[Any]] = field(default_factory=lambda: {key: [] for key in KEYS})
    is_old: bool = False  # the topic was made anew, and the stream was not
    is_same: bool = True  # nothing was lost or made anew


@dataclass
class Producer:
    """A writer of one stream. It keeps its word: it writes nothing older than its bounds, and only while it is in."""

    name: str
    bounds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KEYS, 0))
    is_in: bool = False  # it may write
    coming: int | None = None  # the offset of the record by which it comes back
    times: Mapping[str, int] | None = None  # those of that record, if they are greater than all before
    said: dict[str, int] = field(default_factory=dict)  # the greatest times of its records
    closes: bool = False  # by the last of them


@dataclass
class RunningRelay:
    """A relay in a thread, which goes on step by step."""

    gate: Gate
    name: str
    member: Any
    relay: Relay
    thread: threading.Thread
    paused: bool = False
    failure: BaseException | None = None


@dataclass
class RelayHistory:
    """One history."""

    drawn: Draw
    kafka: Any = None  # a model, if none is given
    begun: int = 0
    relays: list[RunningRelay] = field(default_factory=list)
    open: ExitStack = field(default_factory=ExitStack)
    highest: int = 0

    def __post_init__(self) -> None:
        self.random, self.folder = self.drawn.random, self.drawn.folder
        self.kafka = self.kafka or ModelKafka(self.random)
        self.streams = {name: Told(name) for name in self.kafka.streams[: self.random.choice((1, 2))]}
        self.names = NAMES[: self.random.choice((1, 2))]
        self.producers = {(stream, name): Producer(name) for stream in self.streams for name in self.names}
        # Streams of which nobody can ask where their topics end: their notes wait, and the group's commits.
        self.away = set(self.random.choice(((), self.kafka.streams[1:])))
        self.partitions = self.random.choice((1, PARTITIONS))  # of the topic of notes that have records

    def say(self, what: str) -> None:
        self.drawn.say(what)

    def run(self) -> None:
        with self.open:
            self.controller = self.open.enter_context(InProcessController(self.folder / "s.db"))
            self.connection = self.open.enter_context(self.controller.connection())
            for stream in self.streams:
                self.connection.run(calls.create_stream(stream, "open", AT_ONCE))
            self.open.callback(self.kill_all)
            for _ in self.drawn.steps(STEPS):
                self.step()
                self.check()
            self.finish()
            self.check()

    def step(self) -> None:
        stream, name = self.random.choice(list(self.streams)), self.random.choice(self.names)
        told, producer = self.streams[stream], self.producers[stream, name]
        acts: list[tuple[int, Callable[[], None]]] = [
            (6, lambda: self.write(told, producer)),
            (4, lambda: self.note(told, producer)),
            (4, lambda: self.leave(told, producer)),
            (6, lambda: self.come_back(told, producer)),
            (4, self.go_on),
            (40, lambda: self.hang_meanwhile(told)),
            (2, self.start),
            (1, self.kill_one),
            (1, self.end_one),
            (3, self.give_up),
            (4, lambda: self.mark_by_another(told)),
            (1, lambda: self.recreate(told)),
            (3, lambda: self.lose_end(told)),
            (3, lambda: self.away.symmetric_difference_update({told.name})),
            (1, self.controller.restart),
        ]
        self.random.choices([each for _, each in acts], [weight for weight, _ in acts])[0]()
        self.controller.clock.now += 10

    # -- producers -----------------------------------------------------------------------------------------------

    def record(self, told: Told, producer: Producer, **says: Any) -> int:
        """Sends a record; returns its offset."""
        value = json.dumps({"stream": told.name, "writer": producer.name, **says}).encode()
        offset: int = self.kafka.send(self.partition_of(producer), value)
        producer.said |= {key: max(time, producer.said.get(key, time)) for key, time in says.get("times", {}).items()}
        producer.closes = "close" in says
        self.say(f"{producer.name} of {told.name} says {says} at {offset}")
        return offset

    def partition_of(self, producer: Producer) -> int:
        return NAMES.index(producer.name) % self.partitions

    def write(self, told: Told, producer: Producer) -> None:
        if not producer.is_in:
            return
        times = {key: bound + self.random.choice((0, 0, 1, 5, 40)) for key, bound in producer.bounds.items()}
        partition = self.random.randrange(PARTITIONS)
        self.kafka.append(told.name, partition, json.dumps(times).encode())
        told.events[partition].append(Written(partition, times, producer.name))
        self.say(f"{producer.name} of {told.name} writes {times} at {partition}:{len(told.events[partition]) - 1}")

    def draw_times(self, producer: Producer, keys: Iterable[str], *, back: bool) -> dict[str, int]:
        """Times that are true: lower ones than those before are, and say less."""
        times = {}
        for key in keys:
            bound = producer.bounds[key]
            if back and self.random.random() < 0.6:
                times[key] = bound - self.random.choice((1, 10))
            else:
                times[key] = max(bound, self.highest - self.random.choice((0, 20))) + self.random.choice((0, 1, 3, 30))
            producer.bounds[key] = max(bound, times[key])
            self.highest = max(self.highest, times[key])
        return times

    def note(self, told: Told, producer: Producer) -> None:
        if producer.is_in:
            keys = self.random.choice((KEYS, KEYS, ("",), ("b",)))
            self.record(told, producer, times=self.draw_times(producer, keys, back=self.random.random() < 0.3))

    def leave(self, told: Told, producer: Producer) -> None:
        if not producer.is_in:
            return
        how = self.random.choice(("idle", "idle", "close"))
        keys = self.random.choice(((), KEYS, ("",), ("b",)))
        times = self.draw_times(producer, keys, back=True)
        self.record(told, producer, **({"times": times} if times else {}), **{how: True})
        producer.is_in = False

    def come_back(self, told: Told, producer: Producer) -> None:
        """It says its times, and writes when they were taken, and not before."""
        if producer.is_in:
            return
        if producer.coming is None or self.random.random() < 0.4:
            before = dict(producer.bounds)
            times = before if self.random.random() < 0.3 else self.draw_times(producer, KEYS, back=False)
            producer.coming = self.record(told, producer, times=dict(times))
            producer.times = times if all(times[key] > before[key] for key in KEYS) else None
        for _ in range(self.random.choice((0, 20, 20))):  # it mostly waits until that is noted
            self.go_on(2)
            self.look(told, producer)
            if producer.coming is None:
                return

    def look(self, told: Told, producer: Producer) -> None:
        """Whether its note was taken: the controller counts it, and has the times of its note, or the group needs that
        no more."""
        if producer.coming is None:
            return
        page = self.connection.run(calls.list_writers(told.name))
        found = next((each for each in page.writers if each.writer == producer.name), None)
        over = self.kafka.committed()[self.partition_of(producer)] > producer.coming
        if found is None or found.state in ("idle", "closed"):
            if over:
                producer.coming = None  # its note was refused, or is for a stream that was there before
            return
        if not over and found.times != producer.times:
            return
        producer.is_in, producer.coming = True, None
        for key in KEYS:
            last = max((each.time for each in told.marks[key]), default=0)
            producer.bounds[key] = max(producer.bounds[key], last)
        self.say(f"{producer.name} of {told.name} is in, with {producer.bounds}")

    # -- relays --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if len(self.relays) >= RELAYS:
            return
        gate = Gate()
        topic, member = self.kafka.join(gate)
        network = Faulty()
        connection = self.open.enter_context(self.controller.connection(network, patience=Patience(attempts=2)))
        stepped = SteppedConnection(connection, network, self.random, gate)

        def ends(streams: Collection[str]) -> Mapping[str, Position | StrandlineError]:
            if streams:
                gate.wait("ends")
            found: Mapping[str, Position | StrandlineError] = self.kafka.ends(streams)
            return {
                stream: LogUnavailable(path=stream, reason="away") if stream in self.away else end
                for stream, end in found.items()
            }

        relay = Relay(stepped, str, NotesTopic(topic, member), ends, RelayMeasures(None), Lines(self.say))
        relay._threads = ThreadPoolExecutor(1)

        def work() -> None:
            try:
                while True:
                    relay.round()
            except Killed:
                pass
            except BaseException as failure:  # the next step raises it
                running.failure = failure
            gate.end()

        self.begun += 1
        running = RunningRelay(gate, f"relay {self.begun}", member, relay, threading.Thread(target=work, daemon=True))
        self.relays.append(running)
        running.thread.start()
        gate.first()
        self.say(f"{running.name} begins")

    def go_on(self, steps: int | None = None, relay: RunningRelay | None = None) -> None:
        """A relay makes some calls."""
        running = [each for each in self.relays if not each.paused]
        if not running:
            return self.start()
        relay = relay or self.random.choice(running)
        for _ in range(self.random.choice((1, 2, 5, 10)) if steps is None else steps):
            for _ in range(5):  # and those by which it finds nothing to do
                self.advance(relay)
                if relay.gate.at != "consume":
                    break

    def advance(self, relay: RunningRelay) -> None:
        """A relay makes its next call."""
        at = relay.gate.at
        self.say(f"{relay.name}: {at}")
        relay.gate.step()
        if relay.failure is not None:
            raise relay.failure
        if at.startswith("call"):
            self.look_for_marks()

    def hang_meanwhile(self, told: Told) -> None:
        """A relay hangs, or is killed, before a drawn call, and others go on; then it goes on, and they do not."""
        self.some(told, self.come_back)
        self.some(told, self.random.choice((self.leave, self.leave, self.note)))
        if self.random.random() < 0.8:  # one that has registered nobody yet, and has all partitions
            self.kill_all()
            self.start()
        if self.random.random() < 0.3:  # what was said before is not read yet
            self.some(told, self.come_back)
        hung = self.hang()
        if hung is not None and self.random.random() < 0.2:
            self.kill(hung)
        self.start()
        self.some(told, self.come_back)
        self.some(told, self.write)
        self.some(told, self.random.choice((self.leave, self.note, self.write, self.write)))
        if hung in self.relays:
            if self.random.random() < 0.5:
                self.go_on(4)
                self.kill_all(but=hung)
            hung.paused = False
            self.go_on(self.random.choice((4, 16, 16)), hung)
        else:
            self.go_on(12)
        self.some(told, self.write)
        self.mark_by_another(told)

    def some(self, told: Told, act: Callable[[Told, Producer], None]) -> None:
        """Some of a stream's producers do something."""
        for name in self.names:
            if self.random.random() < 0.8:
                act(told, self.producers[told.name, name])

    def hang(self) -> RunningRelay | None:
        """A relay hangs before a call. Mostly the group gives it up, and it does not know that."""
        running = [each for each in self.relays if not each.paused]
        if not running:
            return None
        relay, place = self.random.choice(running), self.random.choice(PLACES)
        for _ in range(20):
            if relay.gate.at == place:
                break
            self.advance(relay)
        relay.paused = True
        self.say(f"{relay.name} hangs before {relay.gate.at}")
        if self.random.random() < 0.7:
            self.kafka.give_up(relay.member)
        return relay

    def give_up(self) -> None:
        """The group has not heard of a relay for too long."""
        if self.relays:
            relay = self.random.choice(self.relays)
            self.say(f"the group gives up {relay.name}")
            self.kafka.give_up(relay.member)

    def kill_one(self) -> None:
        if self.relays:
            self.kill(self.random.choice(self.relays))

    def kill(self, relay: RunningRelay, *, orderly: bool = False) -> None:
        self.say(f"{relay.name} {'ends' if orderly else 'is killed'}")
        self.relays.remove(relay)
        relay.gate.kill()
        relay.thread.join()
        relay.relay._threads.shutdown()
        if orderly:
            relay.member.close()
        else:
            self.kafka.end(relay.member)

    def kill_all(self, but: RunningRelay | None = None) -> None:
        for each in list(self.relays):
            if each is not but:
                self.kill(each)

    def end_one(self) -> None:
        if self.relays:
            self.kill(self.random.choice(self.relays), orderly=True)

    # -- others --------------------------------------------------------------------------------------------------

    def mark_by_another(self, told: Told) -> None:
        """A writer without events lets time rise as far as the others let it."""
        self.highest += 10
        self.say(f"another notes {self.highest} in {told.name}")
        note = Note(writer="another", times=dict.fromkeys(KEYS, self.highest), position={})
        self.connection.run(calls.note(told.name, note))
        self.connection.run(calls.close(told.name, "another"))
        self.look_for_marks()

    def recreate(self, told: Told) -> None:
        """The topic is made anew, and the stream with it, or later."""
        told.is_old = not told.is_old and self.random.random() < 0.4
        self.kafka.recreate(told.name)
        told.is_same = False
        told.events = [[] for _ in range(PARTITIONS)]
        self.say(f"the topic {told.name} is made anew{', and the stream is not' if told.is_old else ''}")
        if not told.is_old:
            self.recreate_stream(told)

    def recreate_stream(self, told: Told) -> None:
        told.is_old = False
        self.connection.run(calls.delete_stream(told.name))
        self.connection.run(calls.create_stream(told.name, "open", AT_ONCE))
        told.marks = {key: [] for key in KEYS}
        for name in self.names:
            producer = self.producers[told.name, name]
            producer.is_in, producer.coming = False, None

    def lose_end(self, told: Told) -> None:
        """A partition loses its last events, as by the election of a leader that lacks them; then producers leave."""
        partition = self.random.randrange(PARTITIONS)
        count = min(self.random.randint(1, 3), len(told.events[partition]))
        if count and self.kafka.lose_end(told.name, partition, count):
            del told.events[partition][-count:]
            told.is_old, told.is_same = True, False
            self.say(f"{told.name} loses the last {count} of {partition}")
            self.some(told, self.write)
            self.some(told, self.leave)
            self.go_on(20)
            self.mark_by_another(told)

    def finish(self) -> None:
        """One relay is left, which notes all that was said; everybody says a last word, and then comes back."""
        self.kill_all()
        self.kafka.end_all()
        self.away.clear()
        for told in self.streams.values():
            if told.is_old:
                self.recreate_stream(told)
        self.read_all()
        self.check_said()
        self.say_last((None, "idle", "close"))
        self.say_last((None,))

    def read_all(self) -> None:
        for _ in range(100):
            self.go_on(20)
            if self.kafka.committed() == self.kafka.sent():
                return

    def check_said(self) -> None:
        """No relay told the group of a record that was not noted, where nothing was made anew."""
        for (stream, name), producer in self.producers.items():
            page = self.connection.run(calls.list_writers(stream))
            found = {each.writer: dict(each.times) for each in page.writers}.get(name)
            is_gone = found is None and (producer.closes or not producer.said)
            if self.streams[stream].is_same and found != producer.said and not is_gone:
                raise Untrue(f"{name} of {stream} has said {producer.said}, and is at {found}")

    def say_last(self, words: tuple[str | None, ...]) -> None:
        """Everybody says a time, which may be that of before, and a last word, and all of it is noted."""
        last: dict[tuple[str, str], str | None] = {}
        for (stream, name), producer in self.producers.items():
            last[stream, name] = leaving = self.random.choice(words)
            times = self.draw_times(producer, KEYS, back=False) if leaving else producer.bounds
            self.record(self.streams[stream], producer, times=dict(times), **({leaving: True} if leaving else {}))
        self.read_all()
        for (stream, name), leaving in last.items():
            page = self.connection.run(calls.list_writers(stream))
            found = {each.writer: (each.state, dict(each.times)) for each in page.writers}
            states, bounds = STATES[leaving], self.producers[stream, name].bounds
            if found.get(name) not in [(state, bounds) for state in states]:
                raise Untrue(f"{name} of {stream} is to be {states} with {bounds}, and is {found.get(name)}")

    # -- what has to hold ----------------------------------------------------------------------------------------

    def look_for_marks(self) -> None:
        for told in self.streams.values():
            latest = self.connection.run(calls.describe(told.name)).latest_marks
            for key, marks in told.marks.items():
                after = marks[-1].seq if marks else 0
                if key not in latest or latest[key].seq == after:
                    continue
                for mark in self.connection.run(calls.marks(told.name, key=key, after=after, limit=1000)).marks:
                    marks.append(mark)
                    self.say(f"{told.name}: mark {mark.seq} of {mark.time} for {key!r} at {dict(mark.cut)}")

    def check(self) -> None:
        for told in self.streams.values():
            for key, marks in told.marks.items():
                for mark in marks:
                    self.compare(told, key, mark)

    def compare(self, told: Told, key: str, mark: Any) -> None:
        if mark.excluded:
            return
        for partition, events in enumerate(told.events):
            for offset in range(mark.cut.get(str(partition), 0), len(events)):
                if events[offset].times[key] < mark.time:
                    where = f"{partition}:{offset}"
                    raise Untrue(
                        f"{told.name}: complete mark {mark.time} for {key!r} at {mark.cut}: {events[offset]} {where}"
                    )


def run(draw: Draw) -> None:
    RelayHistory(draw).run()


RELAY_HISTORIES: Final = Suite("relays", run, Untrue)
