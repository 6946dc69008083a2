"""An agenda: which names are due, in a heap that does not grow with what was put off."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.core.agenda import Agenda

STEPS = st.lists(st.tuples(st.sampled_from(["put", "drop", "due"]), st.integers(0, 5), st.integers(0, 20)), max_size=60)


@given(STEPS)
def test_names_come_when_they_are_due_in_order_and_once(steps: list[tuple[str, int, int]]) -> None:
    agenda, known = Agenda(), dict[str, int]()
    for step, number, at in steps:
        name = f"w{number}"
        match step:
            case "put":
                agenda.put(name, at)
                known[name] = at
            case "drop":
                agenda.drop(name)
                known.pop(name, None)
            case _:
                due = sorted((when, each) for each, when in known.items() if when <= at)
                assert agenda.due(at, most=2) == [each for _, each in due[:2]]
                for _, each in due[:2]:
                    del known[each]
        assert agenda.at == known
        assert agenda.first() == min(((when, each) for each, when in known.items()), default=None)


def test_a_name_put_off_repeatedly_takes_no_more_room() -> None:
    agenda = Agenda()
    for at in range(1_000):
        agenda.put("w", at)
    assert len(agenda._heap) < 100
    assert agenda.due(2_000) == ["w"]
