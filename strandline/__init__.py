"""Strandline: exact windows of streaming data. All names that a program needs, from one import:

    from strandline import BackgroundWriter, Event, SqliteLog

    log = SqliteLog.create("orders.log", segments=2)
    with BackgroundWriter("http://127.0.0.1:8433", "orders", "till-1", log=log) as writer:
        writer.write([Event(b'{"time": 1700000000000}', key=b"customer-7")])
        writer.note_time(1700000000001)           # every event of mine that is older than this is written

    from strandline import TimeWindows

    with TimeWindows("http://127.0.0.1:8433", "orders") as windows:
        windows.get_time_window(log.end_offsets()).lower      # nothing older is missing

Each name is imported when it is first used. The packages `writer_client`, `reader_client` and `spark_integration` have
the same names by subject; what needs an extra that is not installed says which.
"""

from strandline.lazy_names import public_names

__getattr__, __dir__ = public_names(__name__)
