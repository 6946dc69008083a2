"""`strandline demo`: four writers, a controller, and windows that close by marks beside windows that close by a delay.

`world` plans what each writer writes and when. `writer`, and `reader` or `job`, run as processes; `processes` starts
them, receives their messages and ends them. `run` is what every run has.

- Without Spark (`plain_run`), `reader` has the windows, and `comparison` counts what a delay would have lost.
- With Spark (`spark_run`), `job` counts windows in two queries, and `outcome` and `picture` compare them with the log.
"""
