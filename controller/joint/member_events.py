"""What happens to the member of a controller, counted and logged."""

from __future__ import annotations

import logging
from typing import assert_never

from controller.cluster.events import (
    AddressShared,
    Drained,
    LeaseLost,
    MemberEvent,
    OtherEnded,
    ShardsReleased,
    ShardsTaken,
    StartedOver,
)
from controller.records.operator_log import log_event


class MemberEvents:
    """The counts since this process began."""

    def __init__(self) -> None:
        self.leases_lost = 0
        self.shards_taken_over = 0  # from controllers that had ended
        self.shards_released = 0
        self.controllers_ended = 0

    def observe(self, event: MemberEvent) -> None:
        """Records an event of the member. Each logs one line, however many shards it is about."""
        match event:
            case LeaseLost(shards):
                self.leases_lost += 1
                log_event("lease_lost", logging.WARNING, shards=shards)
            case StartedOver(shards):
                log_event("began_anew", shards=shards)
            case ShardsTaken(shards, ended):
                self.shards_taken_over += sum(ended.values())
                log_event("shards_taken", shards=shards, of_ended=dict(ended) or None)
            case ShardsReleased(shards):
                self.shards_released += shards
                log_event("shards_released", shards=shards)
            case OtherEnded(row):
                self.controllers_ended += 1
                log_event("controller_ended", logging.WARNING, name=row.name, address=row.address)
            case AddressShared(row):
                log_event("same_address", logging.WARNING, name=row.name, address=row.address)
            case Drained():
                log_event("drained")
            case _:
                assert_never(event)
