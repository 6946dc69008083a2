from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stream.db"


@pytest.fixture
def ticking() -> Callable[[], int]:
    """A clock that gives 1000, 1001, … ms."""
    return itertools.count(1000).__next__
