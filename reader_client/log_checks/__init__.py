"""Commands that look at a log: what a fixed delay loses in it, and whether it keeps what marks promised.

`event_sources` reads events from logs and files, for both.
"""
