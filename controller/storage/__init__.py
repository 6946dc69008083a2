"""The SQL of the store, and nothing else. Takes and returns domain values."""
