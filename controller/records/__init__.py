"""What is recorded as it happens: counts, the journal, lines of the log."""
