"""A kill harness with a history checker: real controllers, real stores, faults under load, and a judge afterwards.

run.py         one round: a store, controllers, clients behind proxies, a plan of faults, and the verdict
faults.py      what is done to the processes, each fault an object
site.py        the controllers of a round, and the ways to them
processes.py   the controller's processes, forked from a launcher (launcher.py) that has all modules loaded
proxy.py       a way to a controller or its store that cuts connections, loses answers, holds data
rawclient.py   HTTP by hand: "not sent", "sent and not answered" and "answered" are three outcomes
writers.py, readers.py, programs.py   the load; programs.py drives the project's own writers and readers
history.py     what is recorded: every call with its answer, and the events of the logs
facts.py, checker.py   the judge: pure functions of a history
"""
