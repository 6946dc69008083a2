"""One controller for the tests here, each on streams of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strandline.testing import InProcessController


@pytest.fixture(scope="module")
def controller() -> Iterator[InProcessController]:
    with InProcessController() as started:
        yield started


@pytest.fixture
def stream(controller: InProcessController, request: pytest.FixtureRequest) -> str:
    """A new stream with one segment, named after the test."""
    name: str = request.node.originalname
    assert controller.create_stream(name)
    return name
