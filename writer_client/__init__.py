"""Writers: append events to a log, and note their time.

    with Writer("http://127.0.0.1:8433", "orders", "w1", log=log) as writer:
        writer.write([Event(b"…", key=b"customer-7")])
        writer.note_time(1_700_000_000_000)    # this writer writes no older event from now on

`BackgroundWriter` does not wait for answers, and `AsyncWriter` is for asyncio.
"""

from strandline.lazy_names import public_names

__getattr__, __dir__ = public_names(__name__)
