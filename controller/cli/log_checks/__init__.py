"""Tools that look at a log, before and after: what a fixed delay loses in it, and whether it keeps what marks promised.

`assess` and `audit` are commands of `strandline`. `assessment` and `promises` are their rules, and are pure;
`event_sources` reads events from logs and files.
"""
