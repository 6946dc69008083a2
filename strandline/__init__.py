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
the same names by subject; what needs an extra that is not installed names it.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from strandline import extras

if TYPE_CHECKING:  # what editors and type checkers see
    from reader_client import *
    from spark_integration import *
    from strandline.core.backlog import BacklogDetector as BacklogDetector
    from strandline.core.backlog import CallableStrategy as CallableStrategy
    from strandline.errors import *
    from strandline.logs import StoredEvent as StoredEvent
    from strandline.logs.errors import *
    from strandline.logs.kafka import KafkaLog as KafkaLog
    from strandline.logs.kafka_reader import KafkaLogReader as KafkaLogReader
    from strandline.logs.sqlite import SqliteLog as SqliteLog
    from strandline.logs.sqlite_reader import SqliteLogReader as SqliteLogReader
    from strandline.version import __version__ as __version__
    from writer_client import *
else:
    _SPARK = (
        "FilePositions", "LogSink", "MarkWatch", "OutputNotes", "StrandlineSource", "attach", "detach",
        "exact_watermark", "prepare", "read_between", "read_events", "read_left_out", "read_range", "register",
    )  # fmt: skip
    # What these need, of packages that may not be installed.
    _NEEDED = {
        **dict.fromkeys(_SPARK, "pyspark"),
        "KafkaLog": "confluent_kafka",
        "KafkaLogReader": "confluent_kafka",
    }
    # A name is looked for in these, which need no extra; `import *` leaves out errors, whose names are common words.
    _CLIENTS = ("writer_client", "reader_client")
    _ERRORS = ("strandline.errors", "strandline.logs.errors")
    # Where the others are.
    _HOMES = {
        "BacklogDetector": "strandline.core.backlog",
        "CallableStrategy": "strandline.core.backlog",
        "KafkaLog": "strandline.logs.kafka",
        "KafkaLogReader": "strandline.logs.kafka_reader",
        "SqliteLog": "strandline.logs.sqlite",
        "SqliteLogReader": "strandline.logs.sqlite_reader",
        "StoredEvent": "strandline.logs",
        "__version__": "strandline.version",
        **dict.fromkeys(_SPARK, "spark_integration"),
    }

    def __getattr__(name: str) -> object:
        if name == "__all__":
            clients = {each for client in _CLIENTS for each in import_module(client).__all__}
            others = {each for each, needed in _NEEDED.items() if find_spec(needed) is None}  # cannot be imported
            return sorted({*clients, *_HOMES} - {"__version__", *others})
        home = _HOMES.get(name)
        if home is None and not name.startswith("_"):
            home = next((client for client in _CLIENTS if name in import_module(client).__all__), None)
        if home is None and name[:1].isupper():
            home = next((each for each in _ERRORS if hasattr(getattr(import_module(each), name, None), "says")), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = extras.load(home, name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
