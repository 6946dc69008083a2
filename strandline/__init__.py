"""What all packages of Strandline share. At the top: values and state machines without a clock and without I/O."""

from strandline.core.backlog import BacklogDetector
from strandline.core.coalesce import Coalescer, Idle, Watermark

__all__ = ["BacklogDetector", "Coalescer", "Idle", "Watermark"]
