"""What a member of the cluster has its driver do, besides asking the store, and what it says to a call."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from controller.cluster.records import Adopt, Beat, Begin, Check, ControllerRow, End, Leave, Release, Take


@dataclass(frozen=True, slots=True)
class HandOver:
    """Answer the waiting readers of these shards and hold further calls; then make a commit, which releases them."""

    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget all streams and groups of these shards, and everything about them that is not durable."""

    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """End the process. `replaced_by` is a controller of the same name, if that is why."""

    replaced_by: ControllerRow | None


Action: TypeAlias = Begin | Beat | End | Take | Adopt | Leave | HandOver | Drop | Stop


@dataclass(frozen=True, slots=True)
class CommitParts:
    """A commit that may begin: what it checks first, and the release that it writes besides its rows."""

    check: Check
    release: Release | None
    served_until: int  # callers could be heard until then, but for the time that the commit writes


class CommitOutcome(StrEnum):
    """How a commit ended."""

    DONE = "done"  # durable
    REFUSED = "refused"  # its check found that this controller was ended, or owns another set of shards
    FAILED = "failed"  # nothing was written, and nothing will be
    LOST = "lost"  # it may have been written, or may still be


@dataclass(frozen=True, slots=True)
class Serve:
    """Answer the call here, from what was loaded with this fence."""

    fence: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Ask again when something has happened, and at this moment of the monotonic clock refuse the call."""

    until: int


@dataclass(frozen=True, slots=True)
class PassOn:
    """Send the call to this controller, once."""

    to: ControllerRow


class Refusal(StrEnum):
    """Why a call is answered by 503. Nothing was done."""

    NOT_SERVING = "not_serving"  # without a lease: starting, stopped, or cut off from the store
    NOT_OWNER = "not_owner"  # it was passed on to a controller that does not own the shard


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer the call with an error."""

    reason: Refusal


CallRoute: TypeAlias = Serve | Hold | PassOn | Refuse
