"""The controller: makes marks of notes, stores them, and serves them over HTTP."""

from typing import TYPE_CHECKING

from strandline.lazy_names import names_from

if TYPE_CHECKING:
    from strandline.version import __version__ as __version__

if not TYPE_CHECKING:  # reading the version takes longer than the import of the package
    __getattr__ = names_from(__name__, {"__version__": "strandline.version"})
