"""Turns the column with the events' times into a timestamp: the one place that does.

A number is read as an exact decimal, a double as the one that it is written as, and rounded down to the millisecond:
`strandline.core.time_units.Unit.milliseconds` has the reason, and gives the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_integration.column_names import find_name
from spark_integration.errors import InvalidOption, WrongColumn
from spark_integration.offsets import END_OF_TIME_MS
from strandline.core.time_units import Unit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EXACT: Final = DecimalType(31, 12)  # has nanoseconds of today, and, times any of the factors, 38 digits at most
FACTORS: Final = {
    Unit.SECONDS: ("1000", "decimal(4, 0)"),
    Unit.MILLISECONDS: ("1", "decimal(1, 0)"),
    Unit.MICROSECONDS: ("0.001", "decimal(3, 3)"),
    Unit.NANOSECONDS: ("0.000001", "decimal(6, 6)"),
}
FRACTIONS: Final = (DoubleType, FloatType, DecimalType)
NUMBER: Final = r"^[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?$"
DATED: Final = r"^\s*[-+]?[0-9]{4,}-"  # to what has no date, as 12:30, Spark gives that of the day of the run


def unit_named(time_unit: str | None) -> Unit | None:
    """Returns the unit. Raises InvalidOption."""
    try:
        return None if time_unit is None else Unit(time_unit)
    except ValueError:
        raise InvalidOption(name="time_unit", value=time_unit, wanted=" or ".join(Unit)) from None


def as_read(schema: StructType, event_time: str, unit: Unit | None) -> StructType:
    """Returns the schema with which JSON is read, so that no digit of a time is lost.

    A timestamp is read as text: by itself Spark takes whole numbers for seconds, and has null for those with a
    fraction.
    """
    kind = schema[event_time].dataType
    if isinstance(kind, TimestampType):
        exact: DataType = StringType()
    elif isinstance(kind, FRACTIONS) or (isinstance(kind, IntegralType) and unit is not None):
        exact = EXACT
    else:
        return schema
    changed = (StructField(each.name, exact) if each.name == event_time else each for each in schema.fields)
    return StructType(list(changed))


def from_json(df: DataFrame, event_time: str, declared: DataType, unit: Unit | None) -> DataFrame:
    """Returns `df`, which was read as `as_read` says, with the timestamp; `declared` is the type that the schema has.
    Raises WrongColumn."""
    if isinstance(declared, TimestampType):
        time: Column | None = _from_text(functions.col(event_time), unit or Unit.SECONDS)
    else:
        time = _timestamp(event_time, declared, unit)
    if time is None:
        raise WrongColumn(
            column=event_time,
            found=f"is of type {declared.simpleString()}",
            wanted=f'the schema needs "{event_time} timestamp" for text such as 2026-03-01T12:00:00Z, "{event_time} '
            f'bigint" for whole epoch milliseconds, or "{event_time} double" with time_unit="s" for seconds',
        )
    return df.withColumn(event_time, time)


def with_timestamp(df: DataFrame, event_time: str, unit: Unit | None) -> tuple[DataFrame, str]:
    """Returns `df` with a column of times as a timestamp, and the column's name as `df` has it. Raises WrongColumn."""
    name = _find(df, event_time)
    kind = df.schema[name].dataType
    if isinstance(kind, TimestampType):
        if unit is not None:
            raise WrongColumn(column=event_time, found="is of type timestamp", wanted="leave out time_unit")
        return df, name
    if isinstance(kind, DoubleType | FloatType) and unit is Unit.NANOSECONDS:  # its text has other digits in Java
        found, wanted = f"is of type {kind.simpleString()}", "nanoseconds of today need a bigint or a decimal"
        raise WrongColumn(column=event_time, found=found, wanted=wanted)
    time = _timestamp(name, kind, unit)
    if time is None:
        raise WrongColumn(
            column=event_time,
            found=f"is of type {kind.simpleString()}",
            wanted=f'convert it first, with df.withColumn("{event_time}", functions.col("{event_time}")'
            '.cast("timestamp")), which takes what has no time zone for a time in the session\'s zone',
        )
    return df.withColumn(name, time), name


def _find(df: DataFrame, event_time: str) -> str:
    found = find_name(df, event_time)
    if found is not None:
        return found
    path = field_within(df.schema, event_time)
    if path is None:
        raise WrongColumn(column=event_time, found="is not there", wanted=f"the DataFrame has {', '.join(df.columns)}")
    name = path.rpartition(".")[2]
    raise WrongColumn(
        column=event_time,
        found="is a field of another column",
        wanted=f'pull it up first, with df.withColumn("{name}", functions.col("{path}"))',
    )


def _timestamp(name: str, kind: DataType, unit: Unit | None) -> Column | None:
    """Returns a column as a timestamp; None if its type has no times. Raises WrongColumn for a number of any unit."""
    column = functions.col(name)
    if isinstance(kind, StringType):
        return _from_text(column, unit)
    if isinstance(kind, IntegralType):
        return _from_milliseconds(column) if unit is None else _from_number(column, unit)
    if not isinstance(kind, FRACTIONS):
        return None
    if unit is None:
        raise WrongColumn(
            column=name,
            found=f"is of type {kind.simpleString()}, which may be in any unit",
            wanted='add time_unit="s" if it has seconds, else "ms", "us" or "ns"',
        )
    return _from_number(column, unit)


def _from_milliseconds(number: Column) -> Column:
    # A greater one, such as nanoseconds, is no time: to convert it would end the query.
    is_time = number.between(-END_OF_TIME_MS, END_OF_TIME_MS)
    return functions.when(is_time, functions.timestamp_millis(number.cast("bigint")))


def _from_number(number: Column, unit: Unit) -> Column:
    factor, kind = FACTORS[unit]
    return _from_milliseconds(functions.floor(number.try_cast(EXACT) * functions.lit(factor).cast(kind)))


def _from_text(text: Column, unit: Unit | None) -> Column:
    """From text with a date; or with a number, for which there has to be a unit."""
    number = functions.lit(None).cast("timestamp") if unit is None else _from_number(text, unit)
    return functions.when(text.rlike(NUMBER), number).when(text.rlike(DATED), text.try_cast("timestamp"))


def field_within(schema: StructType, name: str) -> str | None:
    """Returns the path of a field within other columns, which is given by its own name or by its path."""
    for field in schema.fields:
        if isinstance(field.dataType, StructType):
            within = name.removeprefix(f"{field.name}.")
            path = within if within in field.dataType.names else field_within(field.dataType, within)
            if path is not None:
                return f"{field.name}.{path}"
    return None
