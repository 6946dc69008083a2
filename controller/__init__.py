"""The controller: makes marks of notes, stores them, and serves them over HTTP."""

from strandline.lazy_names import public_names

__getattr__, __dir__ = public_names(__name__)
