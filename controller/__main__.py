"""`strandline`, which is `python -m controller` as well."""

import sys

from strandline.errors import not_installed


def main() -> int:
    """Runs the command line; returns what the process should exit with."""
    try:
        from controller.cli import main as run
    except ModuleNotFoundError as missing:
        extra = "controller" if sys.argv[1:2] == ["serve"] else "cli"
        print(f"strandline: {missing.name} is {not_installed(extra)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before the command line is there to take it
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
