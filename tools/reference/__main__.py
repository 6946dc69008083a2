"""Writes the pages, or with --check only lists those that are stale."""

import logging
import sys

from tools.reference import FOLDER, pages, stale
from tools.reference.contract import broken_by_the_code

BROKEN = (
    "These break the contract in docs/reference/openapi.json, and nothing was written. The contract may grow, not "
    "change. If what it had was never released, remove that file and run this again."
)


def main() -> int:
    logging.disable()  # what the controller of the examples logs
    if "--check" in sys.argv[1:]:
        names = stale()
        for name in names:
            print(f"{name} is stale: run `make reference`")
        return 1 if names else 0
    if lines := broken_by_the_code():
        print(*lines, BROKEN, sep="\n", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
