"""Loaded streams: notes, marks, reads, timers."""
