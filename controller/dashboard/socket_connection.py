"""Websockets, which only the dashboard has: this module needs its extra."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class SocketConnection(WebSocketsSansIOProtocol):
    """A connection that has become a websocket."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated and not self.transport.is_closing():
            # The library does not accept this complete request, and would wait for ever.
            self.transport.write(STATUS_LINE[400] + b"connection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()
