"""The line of progress, whatever the controller says."""

import pytest

from strandline.client.http import Connection, HttpTransport
from strandline.client.retry import Patience
from strandline.testing import Fault, Faults, FaultyTransport
from strandline_demo.run import holder


@pytest.mark.parametrize(
    ("fault", "code"), [(Fault.CONTROLLER_AWAY, "controller_away"), (Fault.REQUEST_LOST, "outcome_unknown")]
)
def test_a_controller_that_does_not_answer_in_time_does_not_end_the_demo(fault: Fault, code: str) -> None:
    faults = Faults()
    faults.always(fault)
    url = "http://127.0.0.1:1"
    transport = FaultyTransport(HttpTransport(url), faults)
    with Connection(url, transport=transport, patience=Patience(deadline_ms=200)) as connection:
        assert holder(connection) == f"the controller does not name the holder ({code})"
