"""The vocabulary of Strandline: pure values and state machines, without a clock and without I/O."""

from strandline.backlog import BacklogDetector
from strandline.coalesce import Coalescer, Idle, Watermark

__all__ = ["BacklogDetector", "Coalescer", "Idle", "Watermark"]
