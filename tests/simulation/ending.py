"""How a history ends: faults stop, and then time moves on, within bounds; sometimes the stream is sealed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from strandline.core.chain import MarkChain, sides_among
from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.note import Note
from strandline.core.window import time_window
from tests.simulation.checker import fail
from tests.simulation.network import Kind
from tests.simulation.writers import Phase, Process

if TYPE_CHECKING:
    from tests.simulation.world import World

NEAR_MS = 5_000


def end(world: World) -> None:
    """Stops faults and proves that time comes as far as the living say; raises Broken."""
    world.faults, world.away_steps = False, 0
    now = world.controller.clock()
    if now - world.host.wall_ms < NEAR_MS:
        world.host.wall_ms = now  # one that is off by more stays so
    world.tell(lambda: "faults stop")
    if world.controller.stream is None:
        world.start_controller()
    world.network.come_up(world.steps + 1_000)
    for process in newest(world):
        if process.alive and process.transaction is not None:
            process.end_transaction()
    settle(world)
    living = [process for process in newest(world) if process.phase is Phase.RUNNING]
    for process in living:
        stream = world.controller.stream
        if stream is not None and process.name in stream.writers:
            world.operate("include", process.name)
    world.commit()
    target = 1 + max([world.source_time + 500, *(seen[-1].mark.upper for seen in world.checker.marks.values() if seen)])
    if not world.scenario.ingestion:
        target = max([target, *(time for process in living for time in process.bounds.values())])
    else:
        target = world.controller.clock()
    config = world.checker.config
    step = max(20, (config.writer_timeout_ms or config.mark_interval_ms or 100) // 3)
    intervals = len(world.processes) + 2  # each of the dead may allow one more mark before it is left out
    rounds = 4 + intervals * len(world.scenario.keys) + len(world.log.pieces)
    rounds += ((config.writer_timeout_ms or 0) + intervals * (config.mark_interval_ms or 0)) // step
    rounds *= 2  # the clock may go at half its pace
    for number in range(rounds):
        world.pass_time(step)
        for process in living:
            note_now(world, process, target + number)
        settle(world)
        pass_time(world)
        if config.writer_timeout_ms is None:
            set_aside_the_dead(world)
        if not behind(world, living, target):
            break
    stream = world.controller.stream
    assert stream is not None
    for key, reached in behind(world, living, target).items():
        held = stream.held_by(key, world.controller.clock())
        world.checker.complain(f"time in key {key!r} has not come to {target}: {reached}, held by {held}")
    check_rest(world)
    check_chains(world)
    if world.scenario.seals:
        seal(world)


def newest(world: World) -> list[Process]:
    return [world.newest_process(name) for name in world.processes]


def settle(world: World) -> None:
    """Everything under way arrives, whatever was lost is sent again, and what was begun is finished."""
    for _ in range(12 + len(world.log.end())):  # a writer learns of one segment at a time that it noted more before
        while world.flying:
            event = world.flying[0]
            if event.landed:
                world.ack(event)
            else:
                world.land(event)
        world.tell_scalings()
        while world.network.calls or world.network.replies:
            world.deliver_call()
            world.deliver_reply()
        everyone = [process for each in world.processes.values() for process in each if process.alive]
        for process in everyone:
            for call in list(process.open_calls):
                if not call.fragile:
                    world.send(call)
            if process.phase is Phase.FINISHING:
                process.go_on_finishing()
            elif process.phase is Phase.STARTING and not process.waits_for(Kind.REGISTER):
                process.call(Kind.REGISTER)
            elif process.phase is Phase.RUNNING:
                process.send_planned()
                if world.checker.accounts[process.name].owner is not process:
                    process.send_note(process._last_times())  # a zombie learns that it is one
        if not (world.network.calls or world.network.replies or world.flying):
            return
    world.checker.complain("the processes never come to an end of what they say")


def note_now(world: World, process: Process, time: int) -> None:
    """A living writer says where it stands; nothing it wrote is under way."""
    if process.phase is not Phase.RUNNING:
        return
    process.planned = None
    if world.scenario.ingestion:
        process.call(Kind.CLOCK)
        return
    times = dict.fromkeys(world.keys_of[process.name], time)
    process.bounds.update(times)
    process.call(
        Kind.NOTE, Note(writer=process.name, times=times, position=dict(process.position), epoch=process.epoch)
    )


def pass_time(world: World) -> None:
    """The controller does what is due by its own word, and nothing else."""
    stream = world.controller.stream
    assert stream is not None
    wakes = 0
    while (wake := stream.next_wake()) is not None and wake <= world.controller.clock():
        world.operate("advance")
        wakes += 1
        if wakes > 10:
            fail(f"the stream wants to be woken at {wake}, again and again")
    if world.checker.config.mark_interval_ms is None:
        for key in world.scenario.keys:
            world.operate("evaluate", key)
    world.commit()


def set_aside_the_dead(world: World) -> None:
    """Where nobody times out, an operator excludes whoever holds time back and does not live."""
    stream = world.controller.stream
    assert stream is not None
    for key in world.scenario.keys:
        holder = stream.held_by(key, world.controller.clock())
        if holder is None or holder.writer is None:
            continue
        if world.newest_process(holder.writer).phase is Phase.RUNNING:
            continue
        if world.checker.accounts[holder.writer].ended:
            world.checker.complain(
                f"{holder} holds time back, but said {world.checker.accounts[holder.writer].last_word}"
            )
        world.operate("exclude", holder.writer)
    world.commit()


def behind(world: World, living: list[Process], target: int) -> dict[str, Mark | None]:
    """The keys in which time has not come to what the living noted, with their last marks."""
    config = world.checker.config
    if world.scenario.ingestion:
        target -= config.clock_skew_ms
    running = [process for process in living if process.phase is Phase.RUNNING]
    found: dict[str, Mark | None] = {}
    for key, seen in world.checker.marks.items():
        last = seen[-1].mark if seen else None
        if last is not None and last.time >= target:
            continue
        noted = len(world.checker.have_noted[key]) >= config.min_writers
        if noted and any(key in world.keys_of[process.name] for process in running):
            found[key] = last
    return found


def check_rest(world: World) -> None:
    """Where every reporter said idle or closed, time follows the clock."""
    stream, accounts = world.controller.stream, world.checker.accounts.values()
    assert stream is not None
    if not world.scenario.ingestion or not accounts:
        return
    if any(not one.ended or one.aside is not None or one.left is not None for one in accounts):
        return
    if len(world.checker.have_noted[""]) < world.checker.config.min_writers:
        return
    config = world.checker.config
    past = world.controller.clock() + config.idle_lag_ms + config.clock_skew_ms + 1_000
    while (now := world.controller.clock()) < past:  # a clock that is ahead of the host's passes more slowly
        world.pass_time(past - now)
    mark = stream.resting(now)
    if mark is None or mark.time != now - config.idle_lag_ms - config.clock_skew_ms:
        world.checker.complain(f"all said idle, and at {now} time has come to {mark}")
    if mark is not None:
        world.checker.resting(mark, world.host.served_ms)


def check_chains(world: World) -> None:
    """As columns, the marks are what they were, and a store finds the same windows by seqs; and nothing at or after a
    time lies below where reading from it starts."""
    for key, seen in world.checker.marks.items():
        marks = [each.mark for each in seen]
        chain = MarkChain(marks)
        if list(chain) != marks:
            fail(f"as columns, the marks of key {key!r} are {list(chain)}, not {marks}")
        for reader in world.readers:
            here = Cut(reader.position)
            found = chain.sides(here), sides_among(partial(map, chain.__getitem__), 1, len(chain), here)
            if found[0] != found[1]:
                fail(f"at {here} the marks in memory say {found[0]}, those of a store {found[1]}")
        time = world.random.randint(world.start_time, world.source_time)
        older = [mark for mark in marks if mark.newest is not None and mark.newest < time]
        if not older:
            continue
        early = [
            event
            for event in world.log.events()
            if event.below(older[-1].cut) and event.times.get(key, time - 1) >= time
        ]
        if early:
            fail(f"reading from {time} starts at {older[-1]}, past {early[0]}")


def seal(world: World) -> None:
    """Everyone notes the last position and stops; the dead are excluded; the stream ends."""
    for process in newest(world):
        if process.phase is Phase.RUNNING and not process.tail:
            process.finish(Kind.CLOSE)
    settle(world)
    stream = world.controller.stream
    assert stream is not None
    for process in newest(world):
        if process.phase is Phase.DEAD and process.name in stream.writers:
            world.operate("exclude", process.name)
    if any(process.phase in (Phase.RUNNING, Phase.FINISHING, Phase.STARTING) for process in newest(world)):
        return
    finals = world.log.end() if world.chance(50) and not world.scenario.open else {}
    world.operate("seal", finals)
    world.operate("seal", finals)
    world.commit()
    position = stream.graph.end
    assert position is not None
    for key, seen in world.checker.marks.items():
        window = time_window(MarkChain([each.mark for each in seen]), position, position)
        last = seen[-1].mark.time if seen else None
        noted = [one.noted[key] for one in world.checker.accounts.values() if one.aside is None and key in one.noted]
        if last is not None and max(noted, default=last) > last:
            world.checker.complain(f"the last mark of key {key!r} is at {last}, but someone noted {max(noted)}")
        if not window.end_of_stream or window.lower != last:
            world.checker.complain(f"a sealed stream read to its end has the window {window} in key {key!r}")
    if not Cut(world.log.closed(world.log.end())).le(position) and finals:
        world.checker.complain(f"sealed at {finals}, but its end is {position}")
