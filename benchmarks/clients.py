"""How many calls a second the blocking client makes, beside Python's bare `http.client`.

    python -m benchmarks.clients [--milliseconds 1000] [--rounds 5]

Both note a time at the bare application, which answers at once: what is compared is the client's own work. Both send
the same body over one connection and read the answer's JSON. They take turns on the last core.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from itertools import count
from typing import Final
from urllib.parse import urlsplit

from benchmarks.figures import Figure, Report, arguments, median, run
from benchmarks.servers import pinned, serving_bare
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.note import Note

OURS: Final = "the blocking client"
BARE_CLIENT: Final = "http.client"
JSON: Final = {"content-type": "application/json"}


def a_second(call: Callable[[int], object], seconds: float) -> float:
    begun = time.perf_counter()
    for made in count(1):
        call(made)
        passed = time.perf_counter() - begun
        if passed > seconds:
            return made / passed
    raise AssertionError("counting ended")


def measure(options: argparse.Namespace) -> Report:
    with ExitStack() as opened:
        url = serving_bare(opened).url
        opened.enter_context(pinned(-1))
        connection = opened.enter_context(Connection(url))
        plain = opened.enter_context(closing(HTTPConnection(urlsplit(url).netloc)))

        def ours(made: int) -> object:
            note = Note(writer="w", times={"": made}, position={"0": made})
            return connection.run(calls.note("s", note))

        def bare(made: int) -> object:
            body = json.dumps({"writer": "w", "time": made, "position": {"0": made}})
            plain.request("POST", "/v1/streams/s/notes", body, JSON)
            return json.loads(plain.getresponse().read())

        rates: dict[str, list[float]] = {OURS: [], BARE_CLIENT: []}
        for _ in range(options.rounds):
            for name, call in ((OURS, ours), (BARE_CLIENT, bare)):
                rates[name].append(a_second(call, options.milliseconds / 1000))
    found = {name: median(each) for name, each in rates.items()}
    for name, rate in found.items():
        print(f"{name:20} {rate:9,.0f} calls/s")
    what = "calls a second of the blocking client"
    return Report([Figure.of(what, found[OURS], BARE_CLIENT, found[BARE_CLIENT], "a second", "ratio ≥ 0.35")])


def main() -> None:
    run(measure, arguments(__doc__, milliseconds=1000, rounds=5).parse_args())


if __name__ == "__main__":
    main()
