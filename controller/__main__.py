"""`strandline`, which is `python -m controller` as well."""

import sys


def main() -> int:
    """Runs the command line; returns what the process should exit with."""
    try:
        from controller.cli import main as run
    except ModuleNotFoundError as missing:
        print(
            f"strandline: {missing.name} is not installed: pip install '.[cli]' in a clone of Strandline",
            file=sys.stderr,
        )
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())
