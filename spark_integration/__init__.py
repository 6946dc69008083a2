"""Strandline for Spark: a data source for logs, and an exact watermark for it and for other sources."""

from strandline.lazy_names import needing, public_names

with needing("spark_integration"):
    import spark_integration.releases  # noqa: F401  # a Spark that does not work is named at once

__getattr__, __dir__ = public_names(__name__)
