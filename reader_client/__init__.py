"""Readers: read events with watermarks in between, and get the time window of a position.

    with EventReader("http://127.0.0.1:8433", "billing", "reader-1", {"orders": log}, time_domain="event") as reader:
        for item in reader:
            if item.is_watermark:
                item.watermark              # no older event follows
            else:
                item.event.value

    with TimeWindows("http://127.0.0.1:8433", "orders", cached=True) as windows:
        window = windows.get_time_window({"0": 120, "1": 80})
        window.lower                        # all older events have been read

For asyncio there are the same classes with `Async` before their names.
"""

from strandline.lazy_names import public_names

__getattr__, __dir__ = public_names(__name__)
