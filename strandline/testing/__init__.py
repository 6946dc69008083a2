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

from strandline.lazy_names import public_names

__getattr__, __dir__ = public_names(__name__)
