"""`strandline audit`: whether a log keeps what marks promised. `promises` has its rules, and is pure."""
