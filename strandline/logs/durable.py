"""What has to outlive a crash of the machine."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Returns when a file, or the entries of a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
