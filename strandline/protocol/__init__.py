"""What goes over the wire: typed values, problems, and every call as a generator of requests.

    problems.py    code ↔ error class ↔ HTTP status, both ways, from one table
    wire.py        streams, writers, notes, marks, windows  ↔ JSON
    group_wire.py  reader groups                            ↔ JSON
    calls.py       each HTTP call: yields requests, is sent responses, returns a value or raises a typed error
    attempts.py    what is repeated, when, and what is raised in the end
    transport.py   the two loops that drive a call; the only module that imports httpx

Importing one of them, except for transport.py, needs the standard library only.
"""
