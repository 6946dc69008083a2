"""What goes over the wire: typed values, problems, and every call as a generator of requests.

    problems.py    code ↔ error class ↔ HTTP status, both ways, from one table
    wire.py        streams, writers, notes, marks, windows  ↔ JSON
    group_wire.py  reader groups                            ↔ JSON
    fields.py      JSON objects read field by field
    calls.py       each HTTP call: yields requests, is sent responses, returns a value or raises a typed error
    group_calls.py the same for reader groups
    attempts.py    what is repeated, when, and what is raised in the end
    lazy.py        public names that are imported when first used
    transport.py   the two loops that drive a call; the only module that imports httpx

Importing one of them, except for transport.py, needs the standard library only.
"""
