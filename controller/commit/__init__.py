"""Access to the store: the loop that commits, caches, the log of writers, and the health of the store."""
