"""Strandline for Spark: a streaming source over a log, and the exact watermark that goes with it."""

from typing import TYPE_CHECKING

from strandline.protocol.lazy import names_from

if TYPE_CHECKING:
    from spark_integration.environment import prepare as prepare
    from spark_integration.environment import register as register
    from spark_integration.source import StrandlineSource as StrandlineSource
    from spark_integration.watch import MarkWatch as MarkWatch
    from spark_integration.watermark import exact_watermark as exact_watermark

__all__ = ["MarkWatch", "StrandlineSource", "exact_watermark", "prepare", "register"]

if not TYPE_CHECKING:  # a type checker that saw this would let any name pass
    __getattr__ = names_from(
        __name__,
        {
            "MarkWatch": "spark_integration.watch",
            "StrandlineSource": "spark_integration.source",
            "exact_watermark": "spark_integration.watermark",
            "prepare": "spark_integration.environment",
            "register": "spark_integration.environment",
        },
    )
