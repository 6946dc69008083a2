"""Records events as they happen: counts, the journal, log lines."""
