"""The controller: makes marks of notes, stores them, and serves them over HTTP."""
