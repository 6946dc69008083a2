"""An error of a call is seen: a program that does not catch it ends with its sentence, under few lines."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reader_client import AsyncTimeWindows, ReaderGroup, TimeWindows
from strandline.errors import StrandlineError
from strandline.testing import InProcessController
from writer_client import Writer

Ask = Callable[[InProcessController], Any]


@pytest.fixture(scope="module")
def controller() -> Iterator[InProcessController]:
    with InProcessController() as made:
        yield made


def ask_for_a_window(controller: InProcessController) -> None:
    TimeWindows(controller.connection(), "none").get_time_window({"0": 1})


def note(controller: InProcessController) -> None:
    Writer(controller.connection(), "none", "w").note_time(1, {"0": 1})


def ask_for_the_window_of_a_group(controller: InProcessController) -> None:
    ReaderGroup(controller.connection(), "none").get_time_window()


def ask_in_asyncio(controller: InProcessController) -> None:
    async def asking() -> None:
        await AsyncTimeWindows(controller.async_connection(), "none").get_time_window({"0": 1})

    asyncio.run(asking())


@pytest.mark.parametrize("ask", [ask_for_a_window, note, ask_for_the_window_of_a_group, ask_in_asyncio])
def test_a_refused_call_ends_with_its_sentence_under_few_lines(controller: InProcessController, ask: Ask) -> None:
    with pytest.raises(StrandlineError) as caught:
        ask(controller)

    lines = "".join(traceback.format_exception(caught.value)).splitlines()
    ours = [line for line in lines if "/client/" in line or "_client/" in line]
    assert "'none'" in lines[-1] and len([line for line in ours if "test_tracebacks" not in line]) <= 3, lines
