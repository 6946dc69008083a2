"""Drawn histories: how all suites of them run, tell a failure, replay it and make it shorter, and list planted bugs.

    python -m tests.drawn SUITE 0 1000        the histories of these seeds, until one fails, or all with --go-on
    python -m tests.drawn SUITE 17            one, with each of its steps
    python -m tests.drawn SUITE 17 --shorter  the steps without which it does not fail

A seed draws all that happens in a history. What a suite has of its own is how one runs, and what has to be true in it.
Hypothesis would draw and shorten them too, but keeps each single choice, and these have many thousands, with databases,
brokers and processes behind them; and their seeds stay what they are when a step gets another choice.
"""

from __future__ import annotations

import tempfile
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

LAST_STEPS: Final = 40  # shown of a history that failed
SOUGHT: Final = 100  # histories in which a planted bug is sought

Patch = pytest.MonkeyPatch
# By number of a step, what the source of its draws was in when it began: so steps before it may be left out.
States = list[Any]


class Draw:
    """What one history is drawn from, and tells."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        trace: Callable[[str], object] | None = None,
        kept: Collection[int] | None = None,
        states: States | None = None,
    ) -> None:
        """`kept` are the steps that are not left out; then `states` are those of a whole history."""
        self.seed = seed
        self.folder = folder
        self.random = Random(seed)
        self.states: States = [] if states is None else states
        self.said = deque[str](maxlen=LAST_STEPS)
        self._trace = trace
        self._kept = kept

    def steps(self, count: int) -> Iterator[None]:
        """So many steps, but for those that are left out."""
        for number in range(count):
            if self._kept is None:
                self.states.append(self.random.getstate())
            elif number not in self._kept:
                continue
            else:
                self.random.setstate(self.states[number])
            yield

    def say(self, what: str) -> None:
        self.said.append(what)
        if self._trace is not None:
            self._trace(what)


@dataclass(frozen=True)
class Bug:
    """A rule of the product that is left out or turned round on purpose. `first` is a seed shortly before one that
    finds it, so that a busy machine has the time."""

    name: str
    plant: Callable[[Patch], None]
    first: int = 0

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of(cls, plant: Callable[[Patch], None], first: int = 0) -> Bug:
        """A function that plants it, and is named after it."""
        return cls(plant.__name__.replace("_", " "), plant, first)

    @classmethod
    def put(cls, name: str, owner: object, attribute: str, instead: object, first: int = 0) -> Bug:
        """Something in place of a function, a method or a value of the product."""
        return cls(name, lambda patch: patch.setattr(owner, attribute, instead), first)


@dataclass(frozen=True)
class Suite:
    """Histories of a kind. `run` raises what is `wrong`, as far as that can be told from a bug in the suite."""

    name: str
    run: Callable[[Draw], Counter[str] | None]
    wrong: type[Exception] = Exception

    def history(self, seed: int, trace: Callable[[str], object] | None = None, **more: Any) -> Counter[str]:
        """Runs one, and returns what was counted in it. A failure says how to replay it."""
        with tempfile.TemporaryDirectory(prefix="strandline-drawn-") as folder:
            draw = Draw(seed, Path(folder), trace, **more)
            try:
                return self.run(draw) or Counter()
            except Exception as error:
                error.add_note("\n".join([*draw.said, f"seed {seed}: python -m tests.drawn {self.name} {seed}"]))
                raise

    def histories(self, seeds: Iterable[int]) -> Counter[str]:
        return sum(map(self.history, seeds), Counter[str]())

    def finds(self, bug: Bug, patch: Patch) -> None:
        """Fails unless a planted bug is found."""
        bug.plant(patch)
        with pytest.raises(self.wrong):
            self.histories(range(bug.first, bug.first + SOUGHT))

    def shorter(self, seed: int) -> list[int]:
        """The steps of a history that fails without which it does not fail in the same way: they are left out by
        halves, then by smaller pieces."""
        states: States = []
        error = self._failure(seed, states=states)
        if error is None:
            raise ValueError(f"seed {seed} does not fail")
        kept, size = list(range(len(states))), len(states) // 2
        while size:
            begin = 0
            while begin < len(kept):
                fewer = kept[:begin] + kept[begin + size :]
                if type(self._failure(seed, kept=fewer, states=states)) is type(error):
                    kept = fewer
                else:
                    begin += size
            size //= 2
        return kept

    def _failure(self, seed: int, **more: Any) -> Exception | None:
        try:
            self.history(seed, **more)
        except Exception as error:
            return error
        return None


def batches(usual: int, full: int, each: int, first: int = 0) -> Sequence[Any]:
    """Ranges of seeds as parameters of a test: those of the usual run, and those that are marked `full`."""
    found = [range(begin, begin + each) for begin in range(first, first + full, each)]
    return [
        pytest.param(seeds, id=f"{seeds.start}", marks=[pytest.mark.full] if seeds.start >= first + usual else [])
        for seeds in found
    ]


def planted(*bugs: Bug) -> pytest.MarkDecorator:
    """The parameters of the test that finds them."""
    return pytest.mark.parametrize("bug", bugs, ids=str)
