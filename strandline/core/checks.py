"""Checks the numbers that callers give to the pure core; an error names the wrong value."""

from collections.abc import Collection, Mapping

from strandline.errors import InvalidConfig
from strandline.limits import TIME_BOUND_MS


def check_time(name: str, value: object) -> int:
    """Returns the time; raises InvalidConfig if it is not a whole number of milliseconds within 2^53."""
    if type(value) is not int or not -TIME_BOUND_MS < value < TIME_BOUND_MS:
        raise InvalidConfig(name=name, value=value, wanted="a whole number of milliseconds within 2^53")
    return value


def check_options(given: Mapping[str, object], known: Collection[str], taker: type) -> None:
    """Raises InvalidConfig for an option that a class does not take. It names the nearest one, and no value, which may
    be secret."""
    for name in given:
        if name not in known:
            import inspect  # which takes long
            from difflib import get_close_matches

            nearest = get_close_matches(name, {*known, *inspect.signature(taker).parameters}, n=1)
            wanted = f"{taker.__name__} has no such option" + (f"; did you mean {nearest[0]}?" if nearest else "")
            raise InvalidConfig(name=name, value="…", wanted=wanted)


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
