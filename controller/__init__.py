"""The controller: makes marks of notes, stores them, and serves them over HTTP."""

from strandline.version import __version__ as __version__
