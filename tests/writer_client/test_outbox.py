"""What is sent again, when some notes of a batch were answered and others were not."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from strandline.core.note import Note
from strandline.errors import (
    OutcomeUnknown,
    Overloaded,
    PositionWentBack,
    StrandlineError,
    TimeTooFarAhead,
    TimeWentBack,
)
from strandline.wire.streams import NoteAnswer
from writer_client.outbox import Outbox
from writer_client.pending import Pending
from writer_client.session import WriterSession

TAKEN = NoteAnswer(late=False, floors={}, marks=())


def times_sent_again(*batch: tuple[dict[str, int], NoteAnswer | StrandlineError]) -> list[dict[str, int]]:
    """The notes of a batch have these times and answers; which times does the next batch have?"""
    outbox = Outbox(WriterSession("orders", "w1", (), None), None, None)
    outbox.session.holds = True
    for offset, (times, _) in enumerate(batch):
        outbox.waiting.add(Pending(times, {"0": offset}))
    sent = outbox.notes_to_send()
    answers = [(pending, addressed, answer) for (pending, addressed), (_, answer) in zip(sent, batch, strict=True)]
    outbox.answered(answers, None)
    again = [dict(pending.times) for pending in outbox.waiting.take()]
    assert outbox.status().noted == {
        key: time for times, answer in batch if answer is TAKEN for key, time in times.items()
    }
    return again


OVERLOADED = Overloaded(waiting=1, limit=1)


def test_what_was_not_answered_is_sent_again_in_its_order() -> None:
    assert times_sent_again(({"": 1}, TAKEN), ({"": 2}, OVERLOADED), ({"": 3}, OVERLOADED)) == [{"": 2}, {"": 3}]


def test_what_a_later_note_has_overtaken_is_not_sent_again() -> None:
    assert times_sent_again(({"": 1}, OVERLOADED), ({"": 2}, TAKEN)) == []


def test_a_note_overtaken_in_one_key_keeps_the_other() -> None:
    assert times_sent_again(({"": 1, "a": 5}, OVERLOADED), ({"": 2}, TAKEN)) == [{"a": 5}]


# -- answers that were lost, and a controller that refuses whatever goes back ------------------------------------

LOST = OutcomeUnknown(call="POST …/notes", reason="lost", tried_ms=1, repeatable=True)


@dataclass
class Strict:
    """What a controller has stored of one writer; it judges each note by itself, whatever was sent before."""

    times: dict[str, int] = field(default_factory=dict)
    position: dict[str, int] = field(default_factory=dict)

    def judge(self, note: Note) -> NoteAnswer | StrandlineError:
        for key, time in note.times.items():
            if time < self.times.get(key, time):
                return TimeWentBack(writer=note.writer, key=key, time=time, stored_time=self.times[key])
            if time > 1_000:
                return TimeTooFarAhead(key=key, time=time, clock=0, max_ahead_ms=1_000)
        for segment, offset in note.position.items():
            stored = self.position.get(segment, 0)
            if offset < stored:
                return PositionWentBack(writer=note.writer, segment=segment, offset=offset, stored_offset=stored)
        self.times.update(note.times)
        self.position.update(note.position)
        return TAKEN


def exchange(outbox: Outbox, controller: Strict, *, done: bool = True, lost: bool = False) -> None:
    """One batch: whether it gets there, and whether its answer comes back."""
    sent = outbox.notes_to_send()
    results = [controller.judge(addressed.note) if done else LOST for _, addressed in sent]
    answers = [LOST if lost or not done else result for result in results]
    outbox.answered([(*each, answer) for each, answer in zip(sent, answers, strict=True)], None)


def holding() -> Outbox:
    outbox = Outbox(WriterSession("orders", "w1", (), None), None, None)
    outbox.session.holds = True
    return outbox


NOTES = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["", "a"]), st.integers(0, 3), min_size=1),
        st.dictionaries(st.sampled_from(["0", "1"]), st.integers(0, 3)),
    ),
    max_size=6,
)


@given(batches=st.lists(st.tuples(NOTES, st.booleans(), st.booleans()), max_size=8))
@example(
    batches=[
        ([({"": 0}, {"0": 0}), ({"a": 0}, {"0": 1})], True, True),
        ([({"a": 0}, {"0": 1})], True, False),
    ]
)
def test_no_note_is_refused_for_what_a_lost_answer_took(
    batches: list[tuple[list[tuple[dict[str, int], dict[str, int]]], bool, bool]],
) -> None:
    outbox, controller = holding(), Strict()
    times: dict[str, int] = {}
    position: dict[str, int] = {}
    for notes, done, lost in batches:
        for later, further in notes:
            times = {**times, **{key: times.get(key, 0) + step for key, step in later.items()}}
            position = {**position, **{segment: position.get(segment, 0) + step for segment, step in further.items()}}
            outbox.add_note_at(
                {key: times[key] for key in later}, {segment: position[segment] for segment in further}, {}
            )
        exchange(outbox, controller, done=done, lost=lost)
    for _ in range(20):
        exchange(outbox, controller)
    assert (outbox.count(), outbox.status().refusals) == (0, 0)
    assert (controller.times, outbox.status().noted) == (times, times)
    assert controller.position == position


def test_what_another_one_noted_is_refused_also_where_an_answer_was_lost() -> None:
    outbox, controller = holding(), Strict(times={"": 50})
    outbox.add_note_at({"": 10}, {"0": 1}, {})
    outbox.add_note_at({"": 20}, {"0": 2}, {})
    exchange(outbox, controller, lost=True)
    exchange(outbox, controller)
    status = outbox.status()
    assert (status.refusals, status.waiting, status.noted) == (2, 0, {})
    outbox.add_note_at({"": 60}, {"0": 3}, {})
    exchange(outbox, controller)
    assert outbox.status().noted == {"": 60}


def test_another_reason_for_refusal_is_reported_despite_lost_answers() -> None:
    outbox, controller = holding(), Strict()
    outbox.add_note_at({"": 10}, {"0": 1}, {})
    outbox.add_note_at({"": 2_000}, {"0": 2}, {})
    exchange(outbox, controller, lost=True)
    exchange(outbox, controller)
    assert isinstance(outbox.status().refused, TimeTooFarAhead)
    assert (outbox.status().refusals, outbox.status().noted) == (1, {"": 10})


def test_a_note_that_was_certainly_not_taken_is_refused_as_ever() -> None:
    outbox, controller = holding(), Strict(times={"": 15})
    outbox.add_note_at({"": 10}, {"0": 1}, {})
    outbox.add_note_at({"": 20}, {"0": 2}, {})
    exchange(outbox, controller)
    assert (outbox.status().refusals, outbox.status().noted) == (1, {"": 20})
