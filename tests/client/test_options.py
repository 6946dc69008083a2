"""Every client takes the same options to reach its controller, and names the nearest one for one that is misspelt."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from controller.cli import load
from reader_client import (
    AsyncEventReader,
    AsyncReaderGroup,
    AsyncTimeWindows,
    EventReader,
    ReaderGroup,
    TimeWindows,
)
from spark_integration import OutputNotes, attach
from spark_integration.options import KNOWN
from strandline.client.http import AsyncConnection, Connection, Reaching
from strandline.errors import InvalidConfig
from writer_client import AsyncWriter, Background, BackgroundWriter, Writer

URL = "http://127.0.0.1:9"
NAMED: dict[type, tuple[Any, ...]] = {
    Writer: ("s", "w"),
    AsyncWriter: ("s", "w"),
    BackgroundWriter: ("s", "w"),
    Background: (),
    TimeWindows: ("s",),
    AsyncTimeWindows: ("s",),
    ReaderGroup: ("g",),
    AsyncReaderGroup: ("g",),
    EventReader: ("g", "r", {}),
    AsyncEventReader: ("g", "r", {}),
}


@pytest.mark.parametrize("client", NAMED, ids=lambda client: client.__name__)
def test_every_client_takes_what_a_connection_takes_and_no_other(client: type) -> None:
    taken = inspect.signature(Connection).parameters
    assert set(Reaching.__annotations__) == set(taken) - {"controller", "transport", "seams"}
    for name, wrong in (("token", "two words"), ("token_file", "/nowhere"), ("ca_file", "/nowhere")):
        with pytest.raises(InvalidConfig, match=f"^{name} cannot be"):
            client(URL, *NAMED[client], **{name: wrong})
    with pytest.raises(InvalidConfig, match=rf"tokenfile .*{client.__name__} has no such option; .* token_file\?"):
        client(URL, *NAMED[client], tokenfile="/nowhere")


def shared_by(client: type) -> Connection | AsyncConnection:
    """The connection that it can share with others. An AsyncWriter calls the controller from other threads."""
    is_of_loop = client.__name__.startswith("Async") and client is not AsyncWriter
    return AsyncConnection(URL) if is_of_loop else Connection(URL)


@pytest.mark.parametrize("client", NAMED, ids=lambda client: client.__name__)
def test_what_is_shared_has_its_own_token(client: type) -> None:
    shared = shared_by(client)
    with pytest.raises(InvalidConfig, match="token cannot be '…': left out with a connection"):
        client(shared, *NAMED[client], token="slt_" + "a" * 43)


@pytest.mark.parametrize("client", NAMED, ids=lambda client: client.__name__)
def test_a_number_is_no_patience(client: type) -> None:
    shared = shared_by(client)
    for controller in (URL, shared):
        with pytest.raises(InvalidConfig, match=r"patience cannot be 5: .*Patience\(deadline_ms="):
            client(controller, *NAMED[client], patience=5)


def test_the_nearest_option_may_be_any_that_the_class_takes() -> None:
    misspelt: dict[str, Any] = {"time_domian": "event"}
    with pytest.raises(InvalidConfig, match=r"time_domian .* did you mean time_domain\?"):
        EventReader(URL, "g", "r", {}, **misspelt)
    misspelt = {"leavin": "stay"}
    with pytest.raises(InvalidConfig, match=r"leavin .* did you mean leaving\?"):
        BackgroundWriter(URL, "s", "w", **misspelt)
    with Background(URL) as background, pytest.raises(InvalidConfig, match=r"ca_file .* with a Background"):
        BackgroundWriter(background, "s", "w", ca_file="/nowhere")


def test_sparks_calls_and_commands_take_the_same_to_reach_a_controller() -> None:
    of_python = set(Reaching.__annotations__) - {"patience"}  # in Spark it is how long a job waits, in a command a rule
    for call in (attach, OutputNotes):
        assert of_python <= set(inspect.signature(call).parameters), call
    camel = {re.sub(r"_(\w)", lambda found: found[1].upper(), name) for name in of_python}
    assert camel | {"controllerWaitMs"} <= set(KNOWN)
    for name in ("streams", "wait", "create", "exclude", "relay", "tail"):
        assert of_python <= {parameter.name for parameter in load(name).params}, name
