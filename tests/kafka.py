"""Apache Kafka for the tests: brokers in KRaft mode on free ports of the loopback interface, from Maven Central's jars.

Each broker is a controller as well. What they write goes to a scratch folder and survives every process; killed ones
can be started again. They are small, and quick to notice that another is gone.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, PartitionMetadata
from confluent_kafka.cimpl import NewPartitions, NewTopic

from strandline.logs.kafka_topic import Topic
from tests.java import java, quick_options
from tests.kafka_wire import KafkaWire
from tests.ports import free_ports

START_DEADLINE_S = 60
TOOL_DEADLINE_S = 60
JAVA = ("-Xmx256m", "-Xss512k", "-Djava.awt.headless=true")

# What a test would otherwise wait for; and 128 MB for the log cleaner would not fit.
QUICK = {
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "300",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "num.io.threads": "2",
    "num.network.threads": "1",
    "offsets.topic.num.partitions": "1",
    "replica.lag.time.max.ms": "3000",
    "transaction.state.log.num.partitions": "1",
}

# A broker that was killed may not come back before the session of its former process is over.
SESSION_MS = "2000"
STARTED_AGAIN = ("--override", f"broker.session.timeout.ms={SESSION_MS}")


class Kafka:
    """A cluster of its own. `servers` is what a client connects to; brokers are numbered from 1."""

    def __init__(
        self,
        jars: Path,
        count: int = 1,
        *,
        wired: bool = False,
        options: Sequence[str] | None = None,
        **settings: str,
    ) -> None:
        """Starts `count` brokers; `settings` are the brokers', with _ for the dots, and `options` are Java's. With
        `wired`, clients that connect to `wired_servers` reach each broker over one of the `wires` only."""
        self._classes = f"{jars}/*"
        self._options = (*JAVA, *(quick_options(jars) if options is None else options))
        self._folder = Path(tempfile.mkdtemp(prefix="strandline-kafka-"))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._started: set[int] = set()
        ports = free_ports((3 if wired else 2) * count)
        self._ports = dict(enumerate(ports[:count], start=1))
        self._control = dict(enumerate(ports[count : 2 * count], start=1))
        self._behind = dict(enumerate(ports[2 * count :], start=1))
        self.wires = [KafkaWire(port) for port in self._behind.values()]
        self.servers = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())
        self.wired_servers = ",".join(f"127.0.0.1:{wire.port}" for wire in self.wires)
        given = {name.replace("_", "."): value for name, value in settings.items()}
        try:
            for number in self._ports:
                self._configure(number, given)
            self._format()
            for number in self._ports:
                self.start(number, wait=False)
            self.wait_for(count)
        except BaseException:
            self.remove()
            raise

    @property
    def count(self) -> int:
        return len(self._ports)

    @property
    def client(self) -> dict[str, Any]:
        """Settings of a client that reaches it."""
        return {"bootstrap.servers": self.servers}

    def start(self, number: int, *, wait: bool = True) -> None:
        """Starts a broker, or starts a killed one again; returns when all that run know each other."""
        again = number in self._started
        self._started.add(number)
        with open(self._home(number) / "output", "ab") as output:
            self._processes[number] = subprocess.Popen(
                self._java("kafka.Kafka", str(self._home(number) / "properties"), *(STARTED_AGAIN if again else ())),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=self._home(number),
            )
        if wait:
            self.wait_for(len(self._processes))

    def kill(self, number: int) -> None:
        """Ends a broker as a crash would."""
        process = self._processes.pop(number)
        process.kill()
        process.wait()

    def end(self, number: int) -> None:
        """Ends a broker in order."""
        process = self._processes.pop(number)
        process.terminate()
        process.wait()

    def pause(self, number: int) -> None:
        """Lets a broker hang: what is sent to it waits. Returns when none of its threads runs any more."""
        self._processes[number].send_signal(signal.SIGSTOP)
        os.waitpid(self._processes[number].pid, os.WUNTRACED)

    def resume(self, number: int) -> None:
        self._processes[number].send_signal(signal.SIGCONT)

    def remove(self) -> None:
        """Ends all brokers, and nothing of them is left."""
        for number in list(self._processes):
            self.kill(number)  # nobody needs what an orderly end, which takes seconds, would still do
        for wire in self.wires:
            wire.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def wait_for(self, count: int) -> None:
        """Returns when so many brokers are in the cluster."""
        client = self._admin()
        deadline = time.monotonic() + START_DEADLINE_S
        while True:
            for number, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"broker {number} ended: {self._output(number)}")
            try:
                if len(client.list_topics(timeout=1).brokers) == count:
                    return
            except KafkaException:
                pass  # none of them answers yet
            if time.monotonic() > deadline:
                said = "\n".join(self._output(number) for number in self._processes)
                raise RuntimeError(f"there are not {count} brokers after {START_DEADLINE_S} s: {said}")
            time.sleep(0.05)

    def create_topic(
        self, name: str, partitions: int = 3, *, copies: int | None = None, config: Mapping[str, str] | None = None
    ) -> None:
        """Makes a topic with a copy on every broker, or `copies`; returns when each partition has a leader."""
        client = self._admin()
        new = NewTopic(name, partitions, copies or self.count, config=dict(config or {}))
        client.create_topics([new])[name].result(START_DEADLINE_S)
        self._wait_until_led(client, name, partitions)

    def recreate_topic(self, name: str, partitions: int, **more: Any) -> None:
        """Deletes a topic, if it is there, and makes another of its name as soon as Kafka lets it."""
        client = self._admin()
        try:
            client.delete_topics([name])[name].result(START_DEADLINE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
        deadline = time.monotonic() + START_DEADLINE_S
        while True:
            try:
                return self.create_topic(name, partitions, **more)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                    raise

    def add_partitions(self, name: str, partitions: int) -> None:
        """Lets a topic have so many; returns when each has a leader."""
        client = self._admin()
        client.create_partitions([NewPartitions(name, partitions)])[name].result(START_DEADLINE_S)
        self._wait_until_led(client, name, partitions)

    def wait_until_decided(self, topic: str) -> None:
        """Returns when no transaction is open in a topic: Kafka answers a commit before it has told every partition."""
        asked = Topic(topic, self.client)
        deadline = time.monotonic() + START_DEADLINE_S
        while asked.ends(committed=True) != asked.ends():
            if time.monotonic() > deadline:
                raise RuntimeError(f"a transaction in {topic} is open after {START_DEADLINE_S} s")

    def leader(self, topic: str, partition: int) -> int:
        """The number of the broker that leads a partition; −1 where none does."""
        found: int = self._partition(topic, partition).leader
        return found

    def replicas(self, topic: str, partition: int, *, in_sync: bool = False) -> set[int]:
        """The numbers of the brokers that have a partition."""
        found = self._partition(topic, partition)
        return set(found.isrs if in_sync else found.replicas)

    def run(self, tool: str, *arguments: str, text: str = "") -> str:
        """Runs one of Kafka's own programs, by the name of its class, with a text as its input; returns its output."""
        done = subprocess.run(
            self._java(tool, *arguments),
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=TOOL_DEADLINE_S,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{tool} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def command(self, tool: str, *arguments: str) -> list[str]:
        """What runs one of Kafka's own programs, for a process that a test keeps."""
        return self._java(tool, *arguments)

    def _partition(self, topic: str, partition: int) -> PartitionMetadata:
        return self._admin().list_topics(topic, timeout=START_DEADLINE_S).topics[topic].partitions[partition]

    def _admin(self) -> AdminClient:
        return AdminClient(self.client | {"log_level": 0})  # it would tell of each broker that is not there

    def _configure(self, number: int, given: Mapping[str, str]) -> None:
        copies = str(min(3, self.count))
        listens = {"PLAINTEXT": self._ports[number], "CONTROLLER": self._control[number]}
        advertises = {"PLAINTEXT": self._ports[number]}
        if self.wires:
            listens["WIRED"], advertises["WIRED"] = self._behind[number], self.wires[number - 1].port
        settings = QUICK | {
            # Of several, one that died is to be missed soon; one alone may hang for a while, if it was never killed.
            "broker.session.timeout.ms": SESSION_MS if self.count > 1 else "60000",
            "advertised.listeners": _listeners(advertises),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{each}@127.0.0.1:{port}" for each, port in self._control.items()),
            "default.replication.factor": copies,
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listens),
            "listeners": _listeners(listens),
            "log.dirs": str(self._home(number) / "data"),
            "min.insync.replicas": "2" if self.count > 2 else "1",
            "node.id": str(number),
            "offsets.topic.replication.factor": copies,
            "process.roles": "broker,controller",
            "share.coordinator.state.topic.replication.factor": copies,
            "transaction.state.log.min.isr": "2" if self.count > 2 else "1",
            "transaction.state.log.replication.factor": copies,
        }
        self._home(number).mkdir()
        lines = [f"{name}={value}\n" for name, value in sorted({**settings, **given}.items())]
        (self._home(number) / "properties").write_text("".join(lines))

    def _format(self) -> None:
        """Formats the first broker's storage; the others' is the same but for their names, and a Java less each."""
        properties = str(self._home(1) / "properties")
        self.run("kafka.tools.StorageTool", "format", "--cluster-id", _random_id(), "--config", properties)
        formatted = self._home(1) / "data"
        text = (formatted / "meta.properties").read_text()
        for number in list(self._ports)[1:]:
            shutil.copytree(formatted, self._home(number) / "data")
            own = {"node.id": str(number), "directory.id": _random_id()}
            names = (line.partition("=")[0] for line in text.splitlines())
            lines = [
                f"{name}={own[name]}" if name in own else line
                for name, line in zip(names, text.splitlines(), strict=True)
            ]
            (self._home(number) / "data" / "meta.properties").write_text("\n".join(lines) + "\n")

    def _wait_until_led(self, client: AdminClient, name: str, partitions: int) -> None:
        """Kafka answers before its brokers know of what was made."""
        deadline = time.monotonic() + START_DEADLINE_S
        while True:
            found = client.list_topics(name, timeout=START_DEADLINE_S).topics[name].partitions
            if len(found) == partitions and all(each.leader > 0 for each in found.values()):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"topic {name} has no leaders after {START_DEADLINE_S} s")
            time.sleep(0.02)

    def _java(self, program: str, *arguments: str) -> list[str]:
        return [java(), *self._options, "-cp", self._classes, program, *arguments]

    def _home(self, number: int) -> Path:
        return self._folder / f"broker-{number}"

    def _output(self, number: int) -> str:
        return (self._home(number) / "output").read_text(errors="replace")[-4000:]


def _listeners(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def _random_id() -> str:
    """Random bits as Kafka writes them; it wants none that begins with a dash, which looks like an option."""
    return "A" + urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")[1:]
