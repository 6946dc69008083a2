"""`strandline demo`: four writers, a controller, and a Spark job that counts windows in two ways at once.

`world` plans what each writer writes and when, `outcome` compares the counts with the log and shows the result.
`writer` and `job` run as processes; `processes` starts them, receives their messages and ends them. `run` is a run from
end to end.
"""
