"""Settings of Spark with which an exact watermark loses rows, or leaves windows open."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from spark_integration.errors import WrongSetting
from spark_integration.releases import HAS_LIMITS, INSTALLED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLICY: Final = "spark.sql.streaming.multipleWatermarkPolicy"
AVAILABLE_NOW: Final = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"  # Spark's setting for older sources
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


def check_attached(spark: SparkSession) -> None:
    """Raises WrongSetting where Spark would fix the end of an attached query's `availableNow` run before it shows its
    sources where the query stood: the group of its marks belongs to the checkpoint. The trigger is not known yet."""
    if HAS_LIMITS:
        return
    value = spark.conf.get(AVAILABLE_NOW, "false")
    if value == "true":
        raise WrongSetting(
            setting=AVAILABLE_NOW,
            value=value,
            wanted=f"with Spark {INSTALLED}, it makes the second availableNow run of an attached query fail. Leave it "
            "false where you attach (spark.newSession() has settings of its own), or install Spark 4.2 or newer",
        )
    _log.warning(
        "with Spark %s, an availableNow run of an attached query closes the windows that were complete two runs before",
        INSTALLED,
    )
