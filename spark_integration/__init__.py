"""Strandline for Spark: a data source for logs, and an exact watermark for it and for other sources."""

from strandline import extras
from strandline.version import __version__ as __version__

with extras.needing("spark_integration"):
    import spark_integration.releases  # noqa: F401  # a Spark that does not work is named at once
    from spark_integration.attachment import attach as attach
    from spark_integration.attachment import detach as detach
    from spark_integration.environment import prepare as prepare
    from spark_integration.environment import register as register
    from spark_integration.events import read_between as read_between
    from spark_integration.events import read_events as read_events
    from spark_integration.events import read_left_out as read_left_out
    from spark_integration.events import read_range as read_range
    from spark_integration.mark_watch import MarkWatch as MarkWatch
    from spark_integration.output import LogSink as LogSink
    from spark_integration.output import OutputNotes as OutputNotes
    from spark_integration.positions import FilePositions as FilePositions
    from spark_integration.source import StrandlineSource as StrandlineSource
    from spark_integration.watermark import exact_watermark as exact_watermark

extras.export(vars())
