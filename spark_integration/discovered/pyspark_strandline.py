"""Makes `format("strandline")` known to every Spark session, those of SQL and Scala too.

When a session first uses a Python data source, Spark imports each installed package whose name begins with `pyspark_`,
and registers its `DefaultSource`. If one import fails, Spark leaves out the sources of all packages. So without the
extra `spark`, or with a Spark that does not work, this package has no source, with a line in Spark's log.

Spark 4.0 lets no session register a source that was found in this way. There `register` matters more: it gives the
source what the session has set. So this package has no source there either.
"""

import logging

from strandline.errors import StrandlineError

try:
    from spark_integration.releases import REPLACES_FOUND
    from spark_integration.source import StrandlineSource

    if REPLACES_FOUND:
        DefaultSource = StrandlineSource
except (ImportError, StrandlineError) as error:
    logging.getLogger(__name__).warning("Spark has no data source strandline: %s", error)
