"""The demo without Spark: one reader has the windows, and arithmetic says what a delay would have lost of them."""

import json
import os
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

from controller.terminal import Failure, say
from strandline.client.http import Connection
from strandline.errors import not_installed
from strandline_demo.comparison import compare
from strandline_demo.outcome import read_log
from strandline_demo.run import Run
from strandline_demo.world import WINDOW_MS


@dataclass
class PlainRun(Run):
    """A run in which an `EventReader` has the windows."""

    counting: ClassVar[str] = "reader"

    def start_counting(self, connection: Connection, place: dict[str, str]) -> None:
        self.processes.start("reader", "strandline_demo.reader", json.dumps(place))

    def status(self) -> str:
        """The newest window that is closed."""
        window = self.messages.get(("reader", "window"))
        if window is None:
            return "no window is closed yet"
        end = window["start"] + WINDOW_MS - self.start_ms
        return f"windows up to {end / 1000:g} s are closed"

    def show(self, result: dict[str, Any]) -> None:
        windows = [(window["start"], window["events"], window["at"]) for window in result["windows"]]
        compared = compare(self.settings, self.start_ms, read_log(self.log), windows)
        say(f"\n{compared.table()}\n\n{compared.chart()}\n\n{with_spark()}")
        if compared.faults:
            raise Failure(f"Strandline did not keep its promise: {'; '.join(compared.faults)}")


def with_spark() -> str:
    """How to run real Spark on the same events, and what it needs that is not here."""
    missing = [f"pyspark is {not_installed('demo')}"] if find_spec("pyspark") is None else []
    home = os.environ.get("JAVA_HOME")
    if shutil.which(f"{home}/bin/java" if home else "java") is None:
        missing.append("there is no java, and Spark needs version 17 or newer")
    needs = f" Before that: {'; '.join(missing)}." if missing else ""
    return f"strandline demo --spark runs real Spark, with both watermarks over one stream.{needs}"
