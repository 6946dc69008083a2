"""The options of the `strandline` source, checked when the DataFrame is loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from spark_integration.errors import InvalidOption
from strandline.limits import CONTROLLER_WAIT_DEFAULT_MS, OFFSET_BOUND
from strandline.names import check_name

TOKEN_VARIABLE: Final = "STRANDLINE_TOKEN"
KNOWN: Final = (
    "controller", "token", "tokenFile", "caFile", "stream", "log", "path", "key", "start", "maxRowsPerBatch",
    "controllerWaitMs",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a source reads and whom it asks. Plain data: it travels to Spark's Python processes."""

    controller: str
    stream: str
    path: str
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    ca_file: str | None = None
    key: str = ""
    start: Mapping[str, int] = field(default_factory=dict)
    max_rows_per_batch: int | None = None
    controller_wait_ms: int = CONTROLLER_WAIT_DEFAULT_MS

    def __post_init__(self) -> None:
        if not self.controller.startswith(("http://", "https://")):
            raise InvalidOption(
                name="controller",
                value=self.controller,
                wanted="the controller's address, as http://host:port",
            )
        check_name("stream", self.stream)
        for segment, offset in self.start.items():
            check_name("segment", segment)
            if type(offset) is not int or not 0 <= offset < OFFSET_BOUND:
                raise InvalidOption(name="start", value=offset, wanted="offsets are whole numbers from 0")
        if self.max_rows_per_batch is not None and self.max_rows_per_batch < 1:
            raise InvalidOption(name="maxRowsPerBatch", value=self.max_rows_per_batch, wanted="a whole number from 1")
        if self.controller_wait_ms < 1:
            raise InvalidOption(name="controllerWaitMs", value=self.controller_wait_ms, wanted="a whole number from 1")

    @classmethod
    def parse(cls, given: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Self:
        """Reads Spark's options. Raises InvalidOption, which names the option and what would be right.

        The token is best left to the environment variable STRANDLINE_TOKEN of the driver, or to a file there: an option
        is a part of the plan, and Spark hides it in most of what it prints, not in all.
        """
        options = {name.lower(): value for name, value in given.items()}
        known = {name.lower() for name in KNOWN}
        for name, value in options.items():
            if name not in known:
                raise InvalidOption(name=name, value=value, wanted=f"known are {', '.join(KNOWN)}")
        if (log := options.get("log", "sqlite")) != "sqlite":
            raise InvalidOption(name="log", value=log, wanted="sqlite is the only log so far")
        return cls(
            controller=_required(options, "controller", "the controller's address").rstrip("/"),
            stream=_required(options, "stream", "the stream's name"),
            path=_required(options, "path", "the log's file, at the same place on every machine"),
            token=_token(options, environment),
            token_file=options.get("tokenfile"),
            ca_file=options.get("cafile"),
            key=options.get("key", ""),
            start=_start(options.get("start", "head")),
            max_rows_per_batch=_whole(options, "maxRowsPerBatch"),
            controller_wait_ms=(
                CONTROLLER_WAIT_DEFAULT_MS if (wait := _whole(options, "controllerWaitMs")) is None else wait
            ),
        )


def _token(options: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """The token, unless a file is to have it, which the driver reads when it first asks."""
    if options.get("tokenfile") is not None:
        if options.get("token") is not None:
            raise InvalidOption(name="tokenFile", value=options["tokenfile"], wanted="left out where token is given")
        return None
    return options.get("token") or environment.get(TOKEN_VARIABLE) or None


def _required(options: Mapping[str, str], name: str, wanted: str) -> str:
    value = options.get(name.lower())
    if not value:
        raise InvalidOption(name=name, value=None, wanted=f"give {wanted}")
    return value


def _whole(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name.lower())
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        raise InvalidOption(name=name, value=value, wanted="a whole number") from None


def _start(value: str) -> dict[str, int]:
    if value == "head":
        return {}
    try:
        positions: Any = json.loads(value)
    except ValueError:
        positions = None
    if not isinstance(positions, dict):
        raise InvalidOption(name="start", value=value, wanted='head, or positions as {"0": 120, "1": 80}')
    return positions
