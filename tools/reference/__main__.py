"""Writes the pages, or with --check only lists those that are stale."""

import logging
import sys

from controller.http.openapi import examples_by_route
from tools.reference import FOLDER, pages, stale
from tools.reference.examples import FILE, examples


def main() -> int:
    logging.disable()  # what the controller of the examples logs
    if "--check" in sys.argv[1:]:
        names = stale()
        for name in names:
            print(f"{name} is stale: run `make reference`")
        return 1 if names else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    FILE.write_text(examples())
    examples_by_route.cache_clear()
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
