"""Checks the numbers that callers give to the pure core; an error names the wrong value."""

from strandline.errors import InvalidConfig
from strandline.limits import TIME_BOUND_MS


def check_time(name: str, value: object) -> int:
    """Returns the time; raises InvalidConfig if it is not a whole number of milliseconds within 2^53."""
    if type(value) is not int or not -TIME_BOUND_MS < value < TIME_BOUND_MS:
        raise InvalidConfig(name=name, value=value, wanted="a whole number of milliseconds within 2^53")
    return value


def check_whole(name: str, value: object, *, least: int, most: int | None = None, also: str = "") -> int:
    """Returns the number; raises InvalidConfig if it is not a whole number from `least` up, or is above `most`, by
    default 2^53 - 1.

    `also` ends the sentence, for callers that accept another kind of value too.
    """
    if type(value) is not int or not least <= value < TIME_BOUND_MS or (most is not None and value > most):
        too_great = type(value) is int and value >= TIME_BOUND_MS
        end = f"to {most}" if most is not None else "to 2^53 - 1" if too_great else "up"
        raise InvalidConfig(name=name, value=value, wanted=f"a whole number from {least} {end}{also}")
    return value
