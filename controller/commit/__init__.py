"""The way to the store: group commit, the log of writers, and how the store does."""
