"""Strandline for Spark: a data source for logs, and an exact watermark for it and for other sources."""

from typing import TYPE_CHECKING

import spark_integration.releases  # noqa: F401  # a Spark that does not work is named at once
from strandline.lazy_names import names_from

if TYPE_CHECKING:
    from spark_integration.attachment import attach as attach
    from spark_integration.attachment import detach as detach
    from spark_integration.environment import prepare as prepare
    from spark_integration.environment import register as register
    from spark_integration.events import read_between as read_between
    from spark_integration.events import read_events as read_events
    from spark_integration.events import read_range as read_range
    from spark_integration.file_positions import FilePositions as FilePositions
    from spark_integration.mark_watch import MarkWatch as MarkWatch
    from spark_integration.output import LogSink as LogSink
    from spark_integration.output import OutputNotes as OutputNotes
    from spark_integration.source import StrandlineSource as StrandlineSource
    from spark_integration.watermark import exact_watermark as exact_watermark
    from strandline.version import __version__ as __version__

__all__ = [
    "FilePositions",
    "LogSink",
    "MarkWatch",
    "OutputNotes",
    "StrandlineSource",
    "attach",
    "detach",
    "exact_watermark",
    "prepare",
    "read_between",
    "read_events",
    "read_range",
    "register",
]

if not TYPE_CHECKING:  # a type checker that saw this would let any name pass
    __getattr__ = names_from(
        __name__,
        {
            "__version__": "strandline.version",
            "LogSink": "spark_integration.output",
            "OutputNotes": "spark_integration.output",
            "FilePositions": "spark_integration.file_positions",
            "MarkWatch": "spark_integration.mark_watch",
            "StrandlineSource": "spark_integration.source",
            "attach": "spark_integration.attachment",
            "detach": "spark_integration.attachment",
            "exact_watermark": "spark_integration.watermark",
            "prepare": "spark_integration.environment",
            "read_between": "spark_integration.events",
            "read_events": "spark_integration.events",
            "read_range": "spark_integration.events",
            "register": "spark_integration.environment",
        },
    )
