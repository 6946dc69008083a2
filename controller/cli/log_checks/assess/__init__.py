"""`strandline assess`: what a fixed delay loses of a log. `model` has its arithmetic, and is pure."""
