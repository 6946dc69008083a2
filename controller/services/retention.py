"""What may go: marks wholly below the head of a stream, but for the newest of these."""

from __future__ import annotations

from collections.abc import Mapping

from controller.services.clock import Clock
from controller.services.commits import Committer, durable
from controller.services.reading import Reading
from controller.services.streams import Streams
from strandline.cut import Cut
from strandline.note import check_position
from strandline.segment import SegmentGraph


class Retention:
    """Lets go of marks that no reader can need."""

    def __init__(self, streams: Streams, reading: Reading, committer: Committer, clock: Clock) -> None:
        self._streams = streams
        self._reading = reading
        self._committer = committer
        self._clock = clock

    async def truncate(self, name: str, position: Mapping[str, int]) -> tuple[Cut, SegmentGraph]:
        """Moves the head: what lies below it is gone from the log. Returns the head and the graph to show it with."""
        check_position(position)
        head: Cut = await self._streams.change(name, lambda stream, now: stream.truncate(position, now))
        live = await self._streams.get(name)
        for key in list(live.chains):
            passed, _ = await self._reading.sides(live, key, head)
            live = await self._streams.get(name)
            if passed is not None:
                live.prune(key, passed.seq)
        if live.chains:
            await durable(self._committer.join(live))
        return head, live.stream.graph
