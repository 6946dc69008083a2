"""Tells one history of the model test: python -m tests.model.replay SEED [LAST]"""

import sys

from tests.model.pair import Pair, Seeded


def main(first: int, last: int) -> int:
    failed = 0
    for seed in range(first, last):
        pair = Pair(Seeded(seed), trace=(lambda line: print(line)) if last == first + 1 else None)  # noqa: T201 # for a terminal
        try:
            for _ in range(60):
                pair.step()
        except Exception as failure:
            if last == first + 1:
                raise
            failed += 1
            print(f"{seed}: {type(failure).__name__} {failure}"[:400])  # noqa: T201 # for a terminal
    return 1 if failed else 0


if __name__ == "__main__":
    seeds = [int(argument) for argument in sys.argv[1:3]]
    sys.exit(main(seeds[0], seeds[1] if len(seeds) > 1 else seeds[0] + 1))
