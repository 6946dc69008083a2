"""The store knows the moment before which time alone changes a stream: whoever takes its shard goes by that.

What the store has is read after each commit, and time is let pass in what was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from controller.storage.rewind import NEVER
from controller.storage.schema import stream as stream_table
from controller.storage.session import StoreConnection
from strandline.core.note import Note
from tests.controller.test_tenures import CONFIG, World, play
from tests.storage.loads import load_stream

LATER_MS = 10**9
TIMEOUTS = (None, 1_000, 60_000)
STEPS = st.one_of(
    st.tuples(st.just("note"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("pass"), st.integers(1, 5_000)),
    st.tuples(st.just("configure"), st.sampled_from(TIMEOUTS)),
    st.tuples(st.sampled_from(["idle", "discard", "take"]), st.just("a")),
)


def wake_at(connection: StoreConnection) -> int:
    with connection.begin():
        found: int = connection.execute(select(stream_table.c.wake_at)).scalar_one()
    return found


@settings(max_examples=25)
@given(interval_ms=st.sampled_from([0, 700]), steps=st.lists(STEPS, max_size=10))
@example(interval_ms=700, steps=[("note", "a"), ("note", "a"), ("pass", 700), ("note", "a")])
@example(interval_ms=0, steps=[("discard", "a"), ("note", "a"), ("note", "b")])
@example(interval_ms=0, steps=[("note", "a"), ("configure", None), ("pass", 1_000), ("configure", 1_000)])
def test_time_alone_changes_nothing_before_the_moment_that_the_store_has(
    interval_ms: int, steps: Sequence[tuple[str, str | int | None]]
) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("s0", 1, {**CONFIG, "mark_interval_ms": interval_ms, "writer_timeout_ms": 1_000})
        for time, (what, how) in enumerate(steps, 1):
            await do(world, time, what, how)
            moment, stored = await world.store.read(wake_at), await world.store.read(load_stream, "s0")
            assert stored is not None
            stored.stream.drain()
            until = world.clock.now + LATER_MS if moment == NEVER else moment - 1
            if until < world.clock.now:
                continue  # it is due already, and no controller's clock is older than what it has stored
            marks = stored.stream.advance(until)
            assert marks == [] and not stored.stream.drain().states

    with TemporaryDirectory() as folder:
        play(f"sqlite:///{Path(folder) / 'store.db'}", scene)


async def do(world: World, time: int, what: str, how: str | int | None) -> None:
    """One step, which is durable when it returns."""
    loaded = await world.streams.get("s0")
    now = world.clock.now
    match what:
        case "note":
            loaded.stream.note(Note(writer=str(how), times={"": time}, position={"0": time}), now)
        case "idle" if "a" in loaded.stream.writers:
            loaded.stream.idle("a", None, now)
        case "configure":
            loaded.stream.configure({"writer_timeout_ms": how}, now)
        case "pass":
            assert isinstance(how, int)
            world.clock.now += how
            loaded.stream.advance(world.clock.now)
        case "discard":
            loaded.discard()
            return
        case "take":
            world.streams.forget([loaded.tenure])
            world.shards.lose("0")
            world.shards.take("0")
            return
    await world.committer.join(loaded)
