"""Those beside the writers: readers, who look at their windows, and operators, who change things."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline.core.chain import MarkChain
from strandline.core.cut import Cut
from strandline.core.window import time_window
from tests.simulation.checker import fail
from tests.simulation.scenario import LONG_MS

if TYPE_CHECKING:
    from tests.simulation.world import World

SETTINGS: dict[str, tuple[Any, ...]] = {
    "writer_timeout_ms": (None, 0, 200, 600),
    "min_writers": (1, 2),
    "mark_interval_ms": (0, 100),
    "late_writers": ("hold", "skip"),
    "idle_lag_ms": (0, 100),
    "forget_after_ms": (0, 500, LONG_MS),
}


class Reader:
    """Reads on and on; neither its position nor its time goes back."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.position: dict[str, int] = {}
        self.lowers: dict[str, int] = {}

    def read(self) -> None:
        """Goes on, in a successor only when all before it is read, and looks at its window."""
        random, pieces = self.world.random, self.world.log.pieces
        for piece in random.sample(list(pieces.values()), k=min(2, len(pieces))):
            if all(self.position.get(name, 0) == pieces[name].final for name in piece.before):
                self.position[piece.id] = random.randint(self.position.get(piece.id, 0), len(piece.events))
        for key in self.world.checker.marks:
            self._check_window(key)

    def _check_window(self, key: str) -> None:
        """By binary search it is what it is by looking at every mark, and it never goes back."""
        here = Cut(self.position)
        seen = self.world.checker.marks[key]
        marks = [each.mark for each in seen]
        passed = [mark for mark in marks if mark.cut.le(here)]
        ahead = [mark for mark in marks[len(passed) :] if here.le(mark.cut)]
        window = time_window(MarkChain(marks), here, None)
        lower = (passed[-1].time, passed[-1].complete, passed[-1].seq) if passed else (None, True, None)
        upper = ahead[0].upper if ahead else None
        if (window.lower, window.complete, window.mark_seq, window.upper) != (*lower, upper):
            fail(f"the window at {here} in key {key!r} is {window}, but {lower}, {upper} by looking at every mark")
        if window.lower is not None:
            if window.lower < self.lowers.get(key, window.lower):
                fail(f"the window at {here} in key {key!r} goes back from {self.lowers[key]} to {window.lower}")
            self.lowers[key] = window.lower

    def ask_rest(self) -> None:
        """Asks how far time has come at rest; it is told nothing that a crash could take back."""
        controller = self.world.controller
        if controller.stream is not None and not controller.pending:
            mark = controller.stream.resting(controller.clock())
            if mark is not None:
                self.world.tell(lambda: f"    at rest: {mark}")
                self.world.checker.resting(mark, self.world.host.served_ms)


def interfere(world: World) -> None:
    """What operators do."""
    stream, random = world.controller.stream, world.random
    if stream is None or not stream.writers:
        return
    name = random.choice(sorted(stream.writers))
    match random.randrange(5):
        case 0:
            world.operate("exclude", name)
        case 1 | 2:
            world.operate("include", name)
        case 3:
            if stream.writers[name].lost:
                world.operate("close", name, None)
        case _:
            setting = random.choice(sorted(SETTINGS))
            world.operate("configure", {setting: random.choice(SETTINGS[setting])})
