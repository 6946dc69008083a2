"""Log lines: one for each event, as JSON or as text, written by a thread so that a full pipe blocks nothing."""

from __future__ import annotations

import json
import logging
import queue
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from logging.handlers import QueueHandler, QueueListener
from typing import Any, Final, TextIO

from controller.operator_log import LOGGER, RateLimit, request_id
from strandline.redaction import redact, visible

LOG_LINES: Final = 10_000  # waiting to be written; further lines are left out, and counted
LOG_REFILL_LINES_PER_S: Final = 20  # of one event, after a burst; lines that are left out are counted

LOG_BURST_LINES: Final = 500  # of one event at once, except errors and requests; then LOG_REFILL_LINES_PER_S
LOG_VALUE_CHARACTERS: Final = 1_000  # of one value in a line

_PLAIN: Final = re.compile(r'[^\s"=]+')
_ACCESS: Final = ("client", "method", "path", "http_version", "status")


class RateLimits(logging.Filter):
    """Leaves out lines of one event that come too fast; the next line counts them. Errors are always logged."""

    def __init__(self) -> None:
        super().__init__()
        self._paces = defaultdict[str, RateLimit](partial(RateLimit, LOG_BURST_LINES, 1_000 // LOG_REFILL_LINES_PER_S))

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != LOGGER.name or record.levelno >= logging.ERROR:
            return True
        left_out = self._paces[record.msg].allow(round(record.created * 1000))
        if left_out:
            record.fields = {**fields_of(record), "left_out": left_out}
        return left_out is not None


class _Bounded(QueueHandler):
    """Hands records to the writing thread; if too many wait, leaves records out and counts them."""

    def __init__(self, lines: queue.Queue[Any]) -> None:
        super().__init__(lines)
        self._lines = lines
        self._left_out = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Adds the fields. The writing thread does not know the current request, so its id is added here."""
        fields = fields_of(record)
        if "request_id" not in fields and (current := request_id()) is not None:
            fields["request_id"] = current
        if self._left_out and not self._lines.full():
            fields["lines_left_out"], self._left_out = self._left_out, 0
        record.fields = fields
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(record)
        except queue.Full:
            self._left_out += 1


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of a record: our own records have them, others have a message."""
    given = getattr(record, "fields", None)
    if given is not None:
        return dict(given)
    if record.name == "uvicorn.access" and isinstance(record.args, tuple) and len(record.args) == len(_ACCESS):
        found = dict(zip(_ACCESS, record.args, strict=True))
        return {**found, "path": str(found["path"]).partition("?")[0]}  # the query may be confidential
    return {"logger": record.name, "message": record.getMessage()}


def _event(record: logging.LogRecord) -> str:
    return "request" if record.name == "uvicorn.access" else str(getattr(record, "event", "message"))


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class JsonLines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"logged_at": _time(record), "level": record.levelname.lower(), "event": _event(record)}
        line = {**line, **fields_of(record)}
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
            line["traceback"] = self.formatException(record.exc_info)
        return visible(json.dumps(_safe(line), ensure_ascii=False, default=str))


class TextLines(logging.Formatter):
    """A record as one line of text, `name=value`; a traceback follows, indented, so that it looks like no record."""

    def format(self, record: logging.LogRecord) -> str:
        fields = fields_of(record)
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        parts = [_time(record), record.levelname, _event(record)]
        parts += [f"{name}={_quoted(_safe(value))}" for name, value in fields.items()]
        line = " ".join(parts)
        if not record.exc_info:
            return line
        below = redact(self.formatException(record.exc_info)).splitlines()
        return "\n".join([line, *(f"  {visible(each)}" for each in below)])


def _safe(value: Any) -> Any:
    """A value without secrets, shortened; a traceback stays whole."""
    match value:
        case str():
            text = redact(value)
            long = len(text) > LOG_VALUE_CHARACTERS and not text.startswith("Traceback")
            return f"{text[:LOG_VALUE_CHARACTERS]}…" if long else text
        case dict():
            return {name: _safe(each) for name, each in value.items()}
        case list() | tuple():
            return [_safe(each) for each in value]
        case _:
            return value


def _quoted(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if _PLAIN.fullmatch(text) and text.isprintable() else visible(json.dumps(text, ensure_ascii=False))


FORMATS: Final[dict[str, Callable[[], logging.Formatter]]] = {"text": TextLines, "json": JsonLines}


@contextmanager
def log_lines(form: str, stream: TextIO | None = None) -> Iterator[None]:
    """Writes every line of the process to `stream`, standard error if none, in one of the FORMATS."""
    lines: queue.Queue[Any] = queue.Queue(LOG_LINES)
    bounded, listener = _Bounded(lines), QueueListener(lines, _handler(form, stream))
    bounded.addFilter(RateLimits())
    listener.start()
    try:
        with _logged_by(bounded):
            yield
    finally:
        listener.stop()  # writes all waiting lines first


def _handler(form: str, stream: TextIO | None) -> logging.Handler:
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(FORMATS[form]())
    return handler


@contextmanager
def _logged_by(handler: logging.Handler) -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
