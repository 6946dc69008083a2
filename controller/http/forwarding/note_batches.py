"""`POST /v1/notes`: each owner gets its notes, side by side, and the results go back in the order of the notes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
from msgspec import UNSET
from starlette.types import Receive, Scope

from controller.cluster.records import Kind
from controller.controller import Controller
from controller.http.bodies import NoteBody
from controller.http.forwarding.batches import divided, failed_as_one, least, together
from controller.http.forwarding.note_queue import send_notes
from controller.http.forwarding.owners import FoundOwner, Owners
from controller.http.forwarding.peers import NoAnswer, NotTaken, Peers, problem_head
from controller.http.forwarding.subjects import Subject
from controller.http.notes import checked, no_list, read_notes, take_many
from controller.http.request_bodies import read_body
from controller.http.responses import to_json
from strandline.errors import NotOwner, Overloaded, OwnerUndecided, StrandlineError
from strandline.names import is_name
from strandline.wire.problems import to_problem
from strandline.wire.streams import NoteResults, encoded_result

Given: TypeAlias = NoteBody | StrandlineError


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """The answer to notes of several streams, and the least of its owners' clocks."""

    status: int
    body: bytes
    time: int


@dataclass(frozen=True, slots=True)
class _Part:
    """What came of the notes at some places."""

    places: list[int]
    results: Sequence[msgspec.Raw]
    time: int | None


@dataclass(frozen=True, slots=True)
class _Call:
    """One request. Notes that another controller passed on to this one are taken here or refused."""

    controller: Controller
    scope: Scope
    token: bytes | None
    passed_on_to: int | None
    given: list[Given]
    size_bytes: int


class NoteBatches:
    """Takes notes of several streams and passes on those that other controllers own."""

    def __init__(self, owners: Owners, peers: Peers) -> None:
        self._owners = owners
        self._peers = peers

    async def take(
        self, controller: Controller, scope: Scope, receive: Receive, token: bytes | None, passed_on_to: int | None
    ) -> BatchAnswer:
        """The answer to a request. A note that was taken by nobody is tried again for a while."""
        body = await read_body(scope, receive, as_json=True)
        given = await read_notes(body, scope["app"], controller.notes)
        if isinstance(given, NoteBody) and given.notes is not UNSET:
            given = checked(given, given.notes)
        if not isinstance(given, list):
            raise no_list()
        call = _Call(controller, scope, token, passed_on_to, given, len(body))
        parts: list[_Part] = []
        until = self._owners.over_at()
        pending = list(range(len(given)))
        while True:
            made = await self._attempt(call, pending)
            parts += made
            pending = sorted(place for part in made for place in _not_taken(part))
            if not pending or passed_on_to is not None or not await self._owners.pause(until):
                break
        results = together(len(given), ((part.places, part.results) for part in parts))
        time = least((part.time for part in parts), controller.clock.now())
        whole = failed_as_one([problem_head(each).status or None for each in results])
        if whole is not None:
            return BatchAnswer(problem_head(results[whole]).status, bytes(results[whole]), time)
        return BatchAnswer(200, to_json(NoteResults(tuple(results))), time)

    async def _attempt(self, call: _Call, places: list[int]) -> list[_Part]:
        """Gives each owner its notes at these places. Only notes about what is being handed over wait for that."""
        subjects = {place: _subject_of(call.given[place]) for place in places}
        named = {subject for subject in subjects.values() if subject is not None}
        known, held = self._owners.all_known(named, call.passed_on_to)

        async def give(owners: Iterable[tuple[Subject | None, FoundOwner]]) -> list[_Part]:
            found = dict(owners)
            own = [place for place in places if subjects[place] in found]
            groups = divided(found[subjects[place]] for place in own).items()
            sending = (self._part(call, target, [own[each] for each in group]) for target, group in groups)
            return await asyncio.gather(*sending)

        async def give_held() -> list[_Part]:
            return await give((await self._owners.find_all(held, call.passed_on_to)).items()) if held else []

        at_once, later = await asyncio.gather(give([(None, None), *known.items()]), give_held())
        return [*at_once, *later]

    async def _part(self, call: _Call, target: FoundOwner, places: list[int]) -> _Part:
        notes = [call.given[place] for place in places]
        if target is None:
            results, time = await _taken_here(call, notes), call.controller.clock.now()
            return _Part(places, results, time)
        if isinstance(target, StrandlineError):
            return _Part(places, [_problem(target)] * len(places), None)
        try:
            passed = await send_notes(self._peers, target, call.token, [to_json(note) for note in notes])
        except Overloaded as error:
            return _Part(places, [_problem(error)] * len(places), None)
        except NotTaken as error:
            return _Part(places, [_problem(NotOwner(**_named(note), reason=str(error))) for note in notes], None)
        except NoAnswer as error:
            return _Part(places, [_problem(OwnerUndecided(**_named(note), reason=str(error))) for note in notes], None)
        return _Part(places, passed.bodies if passed.status == 200 else passed.bodies * len(places), passed.time)


async def _taken_here(call: _Call, notes: list[Given]) -> Sequence[msgspec.Raw]:
    try:
        answers = await take_many(call.controller.notes, notes, None, call.scope, call.size_bytes)
        return [msgspec.Raw(each) for each in await answers.durable(encoded_result)]
    except StrandlineError as error:
        return [_problem(error)] * len(notes)


def _subject_of(given: Given) -> Subject | None:
    """The stream of a note; None for one that is badly made, or names none that can be: any controller refuses it."""
    if isinstance(given, StrandlineError) or given.stream is UNSET or not is_name(given.stream):
        return None
    return Subject(Kind.STREAM, given.stream)


def _named(given: Given) -> dict[str, str]:
    subject = _subject_of(given)
    return {} if subject is None else subject.named


def _not_taken(part: _Part) -> list[int]:
    """The places at which nothing was done because nobody was the owner."""
    return [
        place for place, each in zip(part.places, part.results, strict=True) if problem_head(each).code == NotOwner.code
    ]


def _problem(error: StrandlineError) -> msgspec.Raw:
    return msgspec.Raw(to_json(to_problem(error)))
