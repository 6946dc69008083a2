"""What a client remembers of each stream and reader group: where its owner is, and the fence of its answers.

Where several controllers serve a store, each stream or group has one owner. Its answers tell two things of it:

Strandline-Owner   the address at which clients reach the owner: the next request goes there first
Strandline-Fence   rises with each change of the owner. Requests send back the greatest one, so that a former owner
                   that does not know yet that it is none shows nothing older than the caller has seen
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from strandline.client.addresses import check_addresses
from strandline.errors import InvalidConfig

OWNERS_REMEMBERED: Final = 10_000  # streams and groups of which a connection knows owner and fence
OWNER_AVOIDED_MS: Final = 30_000  # how long no request goes straight to an owner that was not reached
OWNERS_AVOIDED: Final = 64  # of these at once
OWNER_CHARACTERS: Final = 300  # of the address of an owner; a longer one is not used

OWNER_HEADER: Final = "strandline-owner"
FENCE_HEADER: Final = "strandline-fence"
_SUBJECT: Final = re.compile(r"/v1/(?:streams|reader-groups)/[^/?]+")
_FENCE_DIGITS: Final = 19  # of a number below 2**63


@dataclass(frozen=True, slots=True)
class KnownOwner:
    """What is known of one stream or group."""

    owner: str | None = None
    fence: int = 0


NOTHING: Final = KnownOwner()


class OwnerMemory:
    """Remembers the owners and fences of the streams and groups that were used last, for one thread at a time."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """`addresses` are those that the client was given. Their scheme says whether an owner may be called at an
        address with http."""
        self._encrypted = addresses[0].lower().startswith("https")
        self._known: OrderedDict[str, KnownOwner] = OrderedDict()  # the one that was used last stands last
        self._avoided: OrderedDict[str, float] = OrderedDict()  # addresses, and until when

    def recall(self, path: str, now_ms: float) -> KnownOwner:
        """What is known of the stream or group of a path, without an owner that is avoided at present."""
        subject = _SUBJECT.match(path)
        known = NOTHING if subject is None else self._known.get(subject[0], NOTHING)
        if known.owner is not None and now_ms < self._avoided.get(known.owner, now_ms):
            return KnownOwner(None, known.fence)
        return known

    def learn(self, path: str, headers: Mapping[str, str], sent: int) -> None:
        """Takes what an answer tells about the stream or group of a path, where the request had `sent` this fence.

        An answer without an owner's address makes the client forget an earlier one. A lower fence than was sent means
        that the store never gave the one that was sent, as after a move to another store. So the lower one counts.
        """
        subject = _SUBJECT.match(path)
        if subject is None:
            return
        named, fence = headers.get(OWNER_HEADER, ""), _fence_in(headers)
        owner = _usable(named, encrypted=self._encrypted) if 0 < len(named) <= OWNER_CHARACTERS else None
        before = self._known.pop(subject[0], NOTHING)
        if fence is None:
            fence = before.fence
        elif fence >= sent or before.fence != sent:
            fence = max(fence, before.fence)
        if owner is not None or fence:
            self._known[subject[0]] = KnownOwner(owner, fence)
            if len(self._known) > OWNERS_REMEMBERED:
                self._known.popitem(last=False)

    def forget(self, path: str, owner: str) -> None:
        """The owner of the stream or group of a path could not serve at this address."""
        subject = _SUBJECT.match(path)
        known = None if subject is None else self._known.get(subject[0])
        if subject is not None and known is not None and known.owner == owner:
            self._known[subject[0]] = KnownOwner(None, known.fence)

    def avoid(self, owner: str, now_ms: float) -> None:
        """This address was not reached, or gave no answer: for a while no request goes there as to an owner."""
        self._avoided.pop(owner, None)
        self._avoided[owner] = now_ms + OWNER_AVOIDED_MS
        if len(self._avoided) > OWNERS_AVOIDED:
            self._avoided.popitem(last=False)


def owner_first(owner: str | None, addresses: tuple[str, ...]) -> tuple[str, ...]:
    """The addresses in the order in which an attempt tries them: the owner's, if it is known, before all others."""
    return addresses if owner is None else (owner, *(each for each in addresses if each != owner))


@lru_cache(OWNERS_AVOIDED)
def _usable(named: str, *, encrypted: bool) -> str | None:
    """The address that an answer names, if it is one. A token that goes over https goes to no address with http."""
    try:
        (address,) = check_addresses([named])
    except InvalidConfig:
        return None
    return address if not encrypted or address.lower().startswith("https") else None


def _fence_in(headers: Mapping[str, str]) -> int | None:
    text = headers.get(FENCE_HEADER, "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _FENCE_DIGITS else None
