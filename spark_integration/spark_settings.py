"""Settings of Spark with which an exact watermark loses rows, or leaves windows open."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from spark_integration.errors import WrongSetting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLICY: Final = "spark.sql.streaming.multipleWatermarkPolicy"
NO_DATA_BATCHES: Final = "spark.sql.streaming.noDataMicroBatches.enabled"

_log = logging.getLogger(__name__)


def check_settings(spark: SparkSession) -> None:
    """Raises WrongSetting where Spark would take the greatest watermark of several streams, which makes rows of the
    others late. Logs a warning where windows close a mark later. A query has the settings of when it starts."""
    policy = spark.conf.get(POLICY, "min") or "min"
    if policy.lower() != "min":
        raise WrongSetting(
            setting=POLICY,
            value=policy,
            wanted="Spark would take the greatest watermark of a query's streams, and drop rows of the others, which "
            "are not late. Leave it at min (spark.newSession() has settings of its own)",
        )
    if (spark.conf.get(NO_DATA_BATCHES, "true") or "true").lower() == "false":
        _log.warning(
            "%s is false: a window closes only in the batch after the one that brought its mark, so the last windows "
            "of a stream at rest stay open; set it to true before the query starts",
            NO_DATA_BATCHES,
        )
