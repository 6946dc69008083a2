"""A topic to tail. Needs the `kafka` extra, and is imported only for one."""

from __future__ import annotations

from strandline.logs import Position
from strandline.logs.errors import LogUnavailable
from strandline.logs.kafka_topic import CREATE_TIME, Settings, Topic


class TailedTopic:
    """The high watermarks of a topic: an event of an open transaction was appended too, and lies below."""

    def __init__(self, topic: str, settings: Settings) -> None:
        """Raises TopicMissing, and LogUnavailable."""
        self._topic = Topic(topic, settings)
        self._topic.partitions()
        self._stamped = True  # by the broker, as it appends

    def ends(self) -> Position:
        return self._topic.ends()

    def warning(self) -> str | None:
        try:
            kind = self._topic.timestamp_type()
        except LogUnavailable as error:
            return f"whose time the records of {self._topic.name} carry is not known: {error}"
        self._stamped = kind != CREATE_TIME
        if self._stamped:
            return None
        return (
            f"the records of {self._topic.name} carry their producers' time (message.timestamp.type is {kind}), and "
            f"marks tell when they were appended: the two differ, unless the topic is set to LogAppendTime"
        )

    def older(self, reported: Position, time_ms: int, ends: Position) -> list[str]:
        """One question for all partitions that have moved on: where the first record of that time or later stands."""
        moved = {segment for segment, end in ends.items() if end > reported.get(segment, 0)}
        if not moved or not self._stamped:
            return []
        since = self._topic.since(time_ms, [int(segment) for segment in moved])
        return sorted(segment for segment in moved if since.get(segment, ends[segment]) > reported.get(segment, 0))
