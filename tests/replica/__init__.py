"""Caches of one stream that catch up with each other through a store, against one stream that gets all calls."""
