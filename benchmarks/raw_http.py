"""A connection that speaks HTTP by hand: a client's own work for thousands of calls a second would be measured too."""

from __future__ import annotations

import asyncio


class RawConnection:
    """One connection to a server at `http://host:port`, opened with the first call. One call at a time."""

    def __init__(self, url: str) -> None:
        self._host, _, self._port = url.removeprefix("http://").partition(":")
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer. Raises OSError or EOFError if the connection breaks."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, int(self._port))
        reader, writer = self._streams
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        size = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write((head + size).encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = answer.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return int(answer.split(b" ", 2)[1]), await reader.readexactly(int(length or 0))

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None
