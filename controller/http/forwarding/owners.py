"""The owner of what a call is about: found, waited for, and looked for again, each for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar, assert_never

from controller.cluster.actions import Hold, PassOn, Refusal, Refuse, Serve
from controller.cluster.records import ControllerRow
from controller.http.forwarding.directory import Directory
from controller.http.forwarding.peers import NotTaken
from controller.http.forwarding.subjects import Subject
from strandline.errors import NotOwner, StoreUnavailable, StrandlineError

PASS_ON_MS: Final = 2_000  # how long an owner is looked for that can be reached and takes the call
PASS_ON_PAUSE_MS: Final = 100  # between two attempts, unless who owns what changes before

Value = TypeVar("Value")
FoundOwner: TypeAlias = ControllerRow | StrandlineError | None  # None: this controller

HELD: Final = "it is on its way from one controller to another"
_REASONS: Final = {Refusal.NOT_OWNER: "the call was passed on to a controller that does not own it"}


class Owners:
    """Asks the directory. An owner of None is this controller."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.not_owned = 0  # what other controllers passed on to this one, and it does not own

    def known(
        self, subject: Subject, passed_on_to: int | None, fence: int = 0, since: int = 0
    ) -> ControllerRow | Hold | None:
        """The owner as known now, or a Hold. Raises NotOwner, or StoreUnavailable without a lease."""
        route = self.directory.route(subject.kind, subject.name, fence=fence, since=since, passed_on_to=passed_on_to)
        match route:
            case Serve():
                return None
            case Hold():
                return route
            case PassOn(to):
                return to
            case Refuse(Refusal.NOT_SERVING):
                raise StoreUnavailable(reason="this controller holds no lease of the store")
            case Refuse(reason):
                self.not_owned += 1
                raise NotOwner(**subject.named, reason=_REASONS[reason])
            case _:
                assert_never(route)

    async def find(self, subject: Subject, passed_on_to: int | None = None, fence: int = 0) -> ControllerRow | None:
        """The owner, with at least the caller's fence. Waits while the subject is handed over; raises NotOwner when
        that takes too long."""
        since, until = self.directory.monotonic(), None
        while isinstance(found := self.known(subject, passed_on_to, fence, since), Hold):
            until = found.until if until is None else until
            if not await self.directory.changed(until):
                raise NotOwner(**subject.named, reason=HELD)
        return found

    def all_known(
        self, subjects: Iterable[Subject], passed_on_to: int | None = None
    ) -> tuple[dict[Subject, FoundOwner], list[Subject]]:
        """The owner of each subject, or why there is none; and the subjects that are handed over."""
        found: dict[Subject, FoundOwner] = {}
        held = []
        for subject in subjects:
            try:
                owner = self.known(subject, passed_on_to)
            except StrandlineError as error:
                found[subject] = error
                continue
            if isinstance(owner, Hold):
                held.append(subject)
            else:
                found[subject] = owner
        return found, held

    async def find_all(self, held: Sequence[Subject], passed_on_to: int | None = None) -> dict[Subject, FoundOwner]:
        """The same of subjects that are handed over, once they have arrived."""
        waited = (self.find(subject, passed_on_to) for subject in held)
        found: dict[Subject, FoundOwner] = {}
        for subject, came in zip(held, await asyncio.gather(*waited, return_exceptions=True), strict=True):
            if isinstance(came, BaseException) and not isinstance(came, StrandlineError):
                raise came
            found[subject] = came
        return found

    async def keep_up(
        self, subject: Subject, attempt: Callable[[ControllerRow], Awaitable[Value]], fence: int = 0
    ) -> Value | None:
        """Makes an attempt with the owner, and again with the next owner, for as long as nothing was done. Returns what
        it gives, or None where this controller has become the owner; raises NotOwner in the end."""
        until = self.over_at()
        while (owner := await self.find(subject, fence=fence)) is not None:
            try:
                return await attempt(owner)
            except NotTaken as error:
                if not await self.pause(until):
                    raise NotOwner(**subject.named, reason=str(error)) from None
        return None

    def over_at(self) -> int:
        """When a call that begins now is not tried again any more."""
        return self.directory.monotonic() + PASS_ON_MS

    async def pause(self, until: int) -> bool:
        """Has the directory look again, and waits a little; False where it is too late for another attempt."""
        self.directory.refresh()
        now = self.directory.monotonic()
        if now >= until:
            return False
        await self.directory.changed(min(until, now + PASS_ON_PAUSE_MS))
        return True
