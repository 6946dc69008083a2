"""The demo with Spark: one session, and two queries over the same stream."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from controller.terminal import say
from spark_integration.environment import check_python, prepare
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.config import StreamConfig
from strandline.logs.sqlite import SqliteLog
from strandline_demo.outcome import compare, read_log, table
from strandline_demo.picture import draw
from strandline_demo.run import SEGMENTS, STREAM, Run
from strandline_demo.world import DemoSettings, happenings
from writer_client import Event

TRIAL: Final = "trial"  # a small sealed stream, on which Spark warms up


@dataclass
class SparkRun(Run):
    """A run in which Spark counts the windows twice."""

    counting: ClassVar[str] = "spark"

    out: Path = field(kw_only=True)  # where the picture goes

    @classmethod
    def play(cls, settings: DemoSettings, *, keep: bool, **more: Any) -> None:
        """Runs the demo. Raises JavaMissing or PythonMismatch before anything is started, and what `Run.play` does."""
        prepare()
        check_python(os.environ["PYSPARK_PYTHON"])
        super().play(settings, keep=keep, **more)

    def start_counting(self, connection: Connection, place: dict[str, str]) -> None:
        trial = [event.value(0) for event in happenings(self.settings, "steady")[:500]]
        with SqliteLog.create(self.log.with_stem(TRIAL), SEGMENTS) as log:
            connection.run(calls.create_stream(TRIAL, SEGMENTS, StreamConfig()))
            log.append(Event(value, key=value) for value in trial)
            connection.run(calls.seal(TRIAL, log.seal()))
        say("spark: starting one session on two cores, with two queries over the same stream")
        job = place | {"trial": TRIAL, "delay_ms": self.settings.delay_ms}
        self.processes.start("spark", "strandline_demo.job", json.dumps(job))
        self.until("spark", f"reads {STREAM}")

    def status(self) -> str:
        text: str = self.messages["spark", "status"]["text"]
        return text

    def show(self, result: dict[str, Any]) -> None:
        events = read_log(self.log)
        exact, plain = (compare(events, **result[name]) for name in ("exact", "plain"))
        say("\n" + table(self.settings, exact, plain))
        draw(self.settings, self.start_ms, exact, plain, self.out)
        say(f"\npicture: {self.out.resolve()}")
