"""Writes the pages, or with --check only lists those that are stale."""

import sys

from tools.reference import FOLDER, pages, stale


def main() -> int:
    if "--check" in sys.argv[1:]:
        names = stale()
        for name in names:
            print(f"docs/reference/{name} is stale: run `make reference`")
        return 1 if names else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
