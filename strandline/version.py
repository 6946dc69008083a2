"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("strandline")
    except PackageNotFoundError:  # run from a folder that was never installed
        return "unknown"


__version__ = _installed()
