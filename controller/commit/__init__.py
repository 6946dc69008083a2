"""Access to the store: group commit, the log of writers, and the health of the store."""
