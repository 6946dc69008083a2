"""How a controller is made: its store, its time, who commits, and what serves callers. Read it from top to bottom."""

from __future__ import annotations

import asyncio
from functools import partial

from controller.clock import Clock, HostClock, StoreClock, StoreTime
from controller.commit.freshness import Freshness
from controller.commit.health import StoreHealth
from controller.commit.loop import CommitLoop
from controller.commit.store import Store
from controller.controller import Controller
from controller.groups.service import Groups
from controller.limits import DEFAULT_LIMITS, Limits
from controller.mark_retention import Retention
from controller.records.counts import Counts
from controller.settings import START_DEADLINE_S
from controller.status.denied_calls import DeniedCalls
from controller.status.journal_reads import JournalReads
from controller.status.metrics import Metrics
from controller.status.status_reader import StatusReader
from controller.storage.database import Database, open_database
from controller.storage.heads import Service, read_service
from controller.storage.kinds import kind_of, parse_url
from controller.storage.presence import Presence
from controller.storage.refusals import StoreAway, shown
from controller.storage.transaction import refusing
from controller.storage.worker import in_thread
from controller.streams.mark_feed import MarkFeed
from controller.streams.notes import Notes
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from controller.streams.time_index import TimeIndexes
from controller.tokens import Tokens
from strandline.errors import StoreUnavailable
from strandline.version import __version__


async def start_controller(
    url: str, host: HostClock, name: str, *, by_hand: bool = False, limits: Limits = DEFAULT_LIMITS
) -> Controller:
    """Opens the store and begins to serve; raises what `open_database` raises.

    With a clock that is moved `by_hand`, nothing happens by itself: the caller moves it and calls `run_due`.
    """
    # The store, and the time that it shows: SQLite has one controller, whose host's clock it goes by.
    store_clock = StoreClock(host) if kind_of(parse_url(url)).serves_many and not by_hand else None
    presence = Presence(name, __version__, None if store_clock is not None else host.wall)
    database, service = await _opened(url, presence)
    health = StoreHealth()
    health.wrote()  # that it serves
    store = Store(database, health, limits=limits)
    time = StoreTime(service, store_clock, by_hand=by_hand)
    clock = Clock(store_clock or host, service.served_until, by_hand=by_hand, unserved=time.unserved)
    presence.begin(clock.now, by_hand=by_hand)

    # Who commits, and compares what is in memory with the store.
    commits = CommitLoop(store, clock, time.follow, waiting_calls=limits.waiting_calls, health=health)
    commits.start()
    freshness = Freshness(store, commits)

    # What serves callers.
    streams = Streams(store, commits, clock, freshness, load_wait_ms=limits.load_wait_ms)
    reading = Reads(streams, store, clock)
    indexing = TimeIndexes(streams, store)
    groups = Groups(store, commits, clock, streams, reading, indexing, freshness)
    status = StatusReader(streams, groups, clock)
    tokens = Tokens(store, clock)
    controller = Controller(
        store=store,
        commits=commits,
        freshness=freshness,
        health=health,
        clock=clock,
        time=time,
        presence=presence,
        limits=limits,
        tokens=tokens,
        streams=streams,
        notes=Notes(streams, commits, waiting_bytes=limits.waiting_bytes),
        reading=reading,
        following=MarkFeed(streams, reading, commits, subscribers=limits.subscribers),
        indexing=indexing,
        groups=groups,
        retention=Retention(streams, reading, groups, store, clock),
        journals=JournalReads(streams, groups, store, searches=limits.journal_searches),
        status=status,
        measures=Metrics(streams, groups, status, commits, health),
        counts=Counts(),
        denials=DeniedCalls(clock),
    )

    # Nobody is served before the tokens are known.
    try:
        await tokens.refresh()
        time.follow(await store.read(read_service))  # two commits have passed since the first reading of its clock
    except StoreUnavailable as error:
        raise StoreAway(store=shown(parse_url(url)), reason=error.reason) from error
    controller.serve(by_hand=by_hand)
    return controller


async def _opened(url: str, presence: Presence) -> tuple[Database, Service]:
    """Opens a store in a thread, and begins to serve it; raises StoreRefused."""
    done = asyncio.wrap_future(in_thread("store-start", partial(_open, url, presence)))
    await asyncio.wait([done], timeout=START_DEADLINE_S)
    if not done.done():
        raise StoreAway(store=shown(parse_url(url)), reason=f"it has not answered for {START_DEADLINE_S} s")
    return done.result()


def _open(url: str, presence: Presence) -> tuple[Database, Service]:
    database = open_database(url)
    try:
        with refusing(parse_url(url)):
            return database, presence.serve(database.writer)
    except BaseException:
        database.close()
        raise
