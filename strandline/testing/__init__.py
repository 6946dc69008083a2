"""For tests of applications: time that moves only when a test moves it, and no sleeps.

    clock.py       a clock that the test moves
    controller.py  the real controller in this process, on that clock, and connections to it
    faults.py      faults between a client and the controller, request by request
    log.py         a log in memory whose acknowledgements the test controls

    with InProcessController() as controller:
        controller.create_stream("orders", segments=2)
        with Writer(controller.connection(), "orders", "w1", log=log.writer()) as writer:
            ...
        controller.pass_time(60_000)

The controller needs the extra `controller`. Only tests import this package: it is the one part of `strandline` that
imports the rest of the project.
"""

from typing import TYPE_CHECKING

from strandline.lazy_names import names_from

if TYPE_CHECKING:
    from strandline.testing.clock import NOON as NOON
    from strandline.testing.clock import ManualClock as ManualClock
    from strandline.testing.controller import MARKS_AT_ONCE as MARKS_AT_ONCE
    from strandline.testing.controller import InProcessController as InProcessController
    from strandline.testing.faults import AsyncFaultyTransport as AsyncFaultyTransport
    from strandline.testing.faults import Fault as Fault
    from strandline.testing.faults import Faults as Faults
    from strandline.testing.faults import FaultyTransport as FaultyTransport
    from strandline.testing.faults import Slow as Slow
    from strandline.testing.log import Acknowledge as Acknowledge
    from strandline.testing.log import ScriptedLog as ScriptedLog
    from strandline.testing.log import ScriptedLogReader as ScriptedLogReader
    from strandline.testing.log import ScriptedLogWriter as ScriptedLogWriter

__all__ = [
    "MARKS_AT_ONCE",
    "NOON",
    "Acknowledge",
    "AsyncFaultyTransport",
    "Fault",
    "Faults",
    "FaultyTransport",
    "InProcessController",
    "ManualClock",
    "ScriptedLog",
    "ScriptedLogReader",
    "ScriptedLogWriter",
    "Slow",
]

if not TYPE_CHECKING:  # a type checker that saw this would let any name pass
    __getattr__ = names_from(
        __name__,
        {
            "MARKS_AT_ONCE": "strandline.testing.controller",
            "NOON": "strandline.testing.clock",
            "Acknowledge": "strandline.testing.log",
            "AsyncFaultyTransport": "strandline.testing.faults",
            "Fault": "strandline.testing.faults",
            "Faults": "strandline.testing.faults",
            "FaultyTransport": "strandline.testing.faults",
            "InProcessController": "strandline.testing.controller",
            "ManualClock": "strandline.testing.clock",
            "ScriptedLog": "strandline.testing.log",
            "ScriptedLogReader": "strandline.testing.log",
            "ScriptedLogWriter": "strandline.testing.log",
            "Slow": "strandline.testing.faults",
        },
    )
