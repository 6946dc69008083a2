"""What all packages of Strandline share. At the top: values and state machines without a clock and without I/O."""

from typing import TYPE_CHECKING

from strandline.core.backlog import BacklogDetector
from strandline.core.coalesce import Coalescer, Idle, Watermark
from strandline.lazy_names import names_from

if TYPE_CHECKING:
    from strandline.version import __version__ as __version__

__all__ = ["BacklogDetector", "Coalescer", "Idle", "Watermark"]

if not TYPE_CHECKING:  # reading the version takes longer than the import of the package
    __getattr__ = names_from(__name__, {"__version__": "strandline.version"})
