"""What is sent again, when some notes of a batch were answered and others were not."""

from __future__ import annotations

from strandline.errors import Overloaded, StrandlineError
from strandline.protocol.wire import NoteAnswer
from writer_client.outbox import Outbox
from writer_client.session import Session
from writer_client.waiting import Pending

TAKEN = NoteAnswer(late=False, floors={}, marks=())


def times_sent_again(*batch: tuple[dict[str, int], NoteAnswer | StrandlineError]) -> list[dict[str, int]]:
    """The notes of a batch have these times and answers; which times does the next batch have?"""
    outbox = Outbox(Session("orders", "w1", (), None), None, None)
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


def test_of_a_note_that_was_overtaken_in_one_key_the_other_is_sent_again() -> None:
    assert times_sent_again(({"": 1, "a": 5}, OVERLOADED), ({"": 2}, TAKEN)) == [{"a": 5}]
