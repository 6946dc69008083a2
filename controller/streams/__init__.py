"""Streams in memory, and what is done with them: notes, marks, reads, retention, timers."""
