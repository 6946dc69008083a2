"""Drives the rules of many controllers: the shards of this one, its beats, and what goes with its commits."""
