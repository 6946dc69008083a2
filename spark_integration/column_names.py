"""Names of columns, compared as the session of a DataFrame does: by default capital letters count for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def folding(df: DataFrame) -> Callable[[str], str]:
    """Makes equal what Spark takes for one name."""
    is_exact = str(df.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true"
    return str if is_exact else str.lower


def find_name(df: DataFrame, name: str, names: Iterable[str] | None = None) -> str | None:
    """The name of a column that Spark finds by a name, as it stands in the DataFrame, or among other names."""
    fold = folding(df)
    return next((each for each in (df.columns if names is None else names) if fold(each) == fold(name)), None)
