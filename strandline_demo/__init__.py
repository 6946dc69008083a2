"""`strandline demo`: four writers, a controller, and a Spark job that counts windows in two ways at once.

`options` has the knobs. `world` says who writes what and when, `outcome` compares the counts with the log and shows
that; both are pure. `writer` and `job` are run as processes, which `processes` starts, hears and ends. `run` is a run
from end to end.
"""
