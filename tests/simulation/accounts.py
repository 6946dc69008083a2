"""What the checker knows of each writer by name, from the calls that became durable: its epoch, its last word, and
whether anyone may take it for lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from strandline.core.config import StreamConfig
from strandline.core.cut import NOTHING, Cut
from tests.simulation.network import Call, Kind
from tests.simulation.scenario import LONG_MS
from tests.simulation.writers import Process


@dataclass(slots=True)
class Account:
    """One writer, or tail reporter."""

    owner: Process | None = None  # the newest process
    epoch: int | None = None
    closed_epoch: int | None = None
    last_word: str = ""
    idle_in: set[str] = field(default_factory=set)  # the keys that it has not noted since it said idle
    position: Cut = NOTHING
    known: Cut = NOTHING  # what the stream can know of it: not what it noted before it was forgotten
    noted: dict[str, int] = field(default_factory=dict)  # the time of its newest note in this life, by key
    heard: int = 0  # how much time callers could be heard in, until it was
    heard_at: int = 0  # by the clock
    least_timeout: int | None = None  # that was in force since it was heard
    aside: int | None = None  # since when an operator has set it aside
    left: int | None = None  # since when it is a tail reporter that closed
    held: set[str] = field(default_factory=set)  # the keys in which it was ever registered or noted
    greatest: dict[str, int] = field(default_factory=dict)  # by key, of all its lives
    forgotten: bool = False
    unnamed: set[str] = field(default_factory=set)  # the keys in which marks rightly do not name it, being forgotten
    silent_from: dict[str, int] = field(default_factory=dict)  # by key in which it has not noted since, when lost

    @property
    def ended(self) -> bool:
        """Whether it said itself that it is idle or done."""
        return self.last_word in ("idle", "closed")

    def is_stale(self, call: Call) -> bool:
        """Whether a call shows an epoch that is not the newest one; closing may be repeated."""
        if call.kind in (Kind.REGISTER, Kind.CLOCK) or call.epoch in (None, self.epoch):
            return False
        return call.kind is Kind.NOTE or self.epoch is not None or call.epoch != self.closed_epoch


class Accounts:
    """All writers by name. Silence is counted here a second time, apart from the core."""

    def __init__(self, keys: tuple[str, ...], config: StreamConfig) -> None:
        self.keys = keys
        self.config = config
        self.served = 0  # how much time callers could be heard in, until the moment that is judged
        self._accounts: dict[str, Account] = {}

    def __getitem__(self, name: str) -> Account:
        if name not in self._accounts:
            self._accounts[name] = Account(least_timeout=self.config.writer_timeout_ms)
        return self._accounts[name]

    def __contains__(self, name: str) -> bool:
        return name in self._accounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._accounts)

    def values(self) -> list[Account]:
        return list(self._accounts.values())

    def lost(self, account: Account, key: str, now: int) -> list[int]:
        """Since when it is lost, for each of the causes that there may be."""
        causes = [account.aside, account.left, account.silent_from.get(key)]
        if self._is_silent(account):
            causes.append(self._silent_from(account, now))
        return [moment for moment in causes if moment is not None]

    def forgotten(self, key: str, now: int) -> frozenset[str]:
        """Who was lost so long ago that no mark need name it; one that was forgotten for that stays so."""
        return frozenset(
            name
            for name, account in self._accounts.items()
            if key in account.unnamed or self.is_lost_for_long(account, key, now)
        )

    def may_be_forgotten(self, name: str) -> bool:
        """Whether the stream may soon know nothing of a writer: it closed, or whoever is lost is forgotten early."""
        return self[name].last_word == "closed" or self.config.forget_after_ms < LONG_MS

    def is_lost_for_long(self, account: Account, key: str, now: int) -> bool:
        return any(now - moment >= self.config.forget_after_ms for moment in self.lost(account, key, now))

    def heard(self, account: Account, now: int) -> None:
        self._notice_silence(account, now)
        account.heard, account.heard_at = max(account.heard, self.served), now
        account.least_timeout = self.config.writer_timeout_ms

    def notice_silence(self, now: int) -> None:
        """Whoever has been silent for too long has been lost since then, whatever comes."""
        for account in self._accounts.values():
            self._notice_silence(account, now)

    def reconfigured(self, now: int) -> None:
        timeout = self.config.writer_timeout_ms
        for account in self._accounts.values():
            # Later moments were noticed by the old timeout, before it was known that this one was in force by then.
            account.silent_from = {key: moment for key, moment in account.silent_from.items() if moment <= now}
            self._notice_silence(account, now)
            if timeout is not None and (account.least_timeout is None or timeout < account.least_timeout):
                account.least_timeout = timeout
            self._notice_silence(account, now)

    def _is_silent(self, account: Account) -> bool:
        timeout = account.least_timeout
        return timeout is not None and self.served - account.heard >= timeout and not account.ended

    def _silent_from(self, account: Account, now: int) -> int:
        """The moment when it had been silent for too long."""
        return now - (self.served - account.heard - (account.least_timeout or 0))

    def _notice_silence(self, account: Account, now: int) -> None:
        if self._is_silent(account):
            for key in self.keys:
                account.silent_from.setdefault(key, self._silent_from(account, now))
