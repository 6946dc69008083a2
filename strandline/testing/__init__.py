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

from strandline import extras
from strandline.testing.clock import NOON as NOON
from strandline.testing.clock import ManualClock as ManualClock
from strandline.testing.faults import AsyncFaultyTransport as AsyncFaultyTransport
from strandline.testing.faults import Fault as Fault
from strandline.testing.faults import Faults as Faults
from strandline.testing.faults import FaultyTransport as FaultyTransport
from strandline.testing.faults import Slow as Slow
from strandline.testing.log import Acknowledge as Acknowledge
from strandline.testing.log import ScriptedLog as ScriptedLog
from strandline.testing.log import ScriptedLogReader as ScriptedLogReader
from strandline.testing.log import ScriptedLogWriter as ScriptedLogWriter

if TYPE_CHECKING:
    from controller.testing import MARKS_AT_ONCE as MARKS_AT_ONCE
    from controller.testing import InProcessController as InProcessController
else:
    _CONTROLLER = ("MARKS_AT_ONCE", "InProcessController")  # imported on their first use
    extras.export(vars(), *_CONTROLLER)

    def __getattr__(name: str) -> object:
        if name not in _CONTROLLER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return extras.load("controller.testing", name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_CONTROLLER} - {"TYPE_CHECKING"})
