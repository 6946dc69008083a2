"""Reader groups: readers, positions, windows."""
