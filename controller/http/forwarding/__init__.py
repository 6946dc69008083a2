"""Calls for a stream or reader group that another controller owns: they are passed on to it, once.

directory.py    who owns what, as the cluster says
subjects.py     which stream or group a call is about
batches.py      notes of several streams, by owner, and their results in order
peers.py        calls to the other controllers
note_queue.py   notes of several callers that go to their owner together
owners.py       the owner of a stream or group: found, waited for, looked for again
note_batches.py `POST /v1/notes` for streams of several owners
stream_views.py views of streams of several owners, for reader groups
others.py       what the status asks of other controllers
forwarding.py   what the middleware asks about each call
"""
