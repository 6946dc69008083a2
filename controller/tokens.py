"""The store's tokens in memory, refreshed twice a second."""

from __future__ import annotations

import hashlib
from typing import Final

from controller.clock import Clock
from controller.commit.store import Store
from controller.storage.tokens import (
    StoredToken,
    changed_tokens,
    note_use,
    stored_tokens,
)
from strandline.access import Grant
from strandline.errors import Unauthenticated

NONE_SHOWN: Final = "no token was shown"
NOT_KNOWN: Final = "the token is not known here, or was revoked"


class Tokens:
    """The tokens of a store. They are found by their SHA-256, so the time of a comparison reveals nothing.

    While the store is away, known tokens stay valid: nobody can revoke one then.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self.required = False  # whether callers need a token: always, once the first was made
        self._store = store
        self._clock = clock
        self.stamp: int | None = None  # of the last change; None before the first token
        self._grants: dict[bytes, Grant] = {}
        self._valid: set[Grant] = set()
        self._used: set[str] = set()

    async def refresh(self) -> None:
        """Reads the tokens from the store if they changed; raises StoreUnavailable."""
        changed = await self._store.read(changed_tokens, self.stamp)
        if changed is None:
            return
        self.stamp, by_digest = changed
        self._grants = {bytes.fromhex(digest): grant for digest, grant in by_digest.items()}
        self._valid = set(self._grants.values())
        self.required = self.required or self.stamp is not None

    def check(self, token: bytes) -> Grant:
        """The grant of a token; raises Unauthenticated if it is unknown, revoked or expired."""
        grant = self._grants.get(hashlib.sha256(token).digest())
        if grant is None:
            raise Unauthenticated(reason=NOT_KNOWN)
        if grant.expires_at is not None and self._clock.now() >= grant.expires_at:
            raise Unauthenticated(reason=f"the token {grant.name!r} has expired")
        self._used.add(grant.name)
        return grant

    def still_allows(self, grant: Grant | None) -> bool:
        """Whether a caller that was admitted with this grant, or without one, still is: for long answers."""
        if grant is None:
            return not self.required
        return grant in self._valid and (grant.expires_at is None or self._clock.now() < grant.expires_at)

    async def note_use(self) -> None:
        """Writes which tokens were used to the store; raises StoreUnavailable."""
        if not self._used:
            return
        used, self._used = self._used, set()
        try:
            await self._store.write(note_use, used, self._clock.now())
        except BaseException:
            self._used |= used
            raise

    async def stored(self) -> list[StoredToken]:
        """All tokens that were ever made, by name; raises StoreUnavailable."""
        return await self._store.read(stored_tokens)
