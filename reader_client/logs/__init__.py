"""Logs, read side: end offsets, segments, and exact ranges of events."""
