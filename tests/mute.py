"""A way to a server that can swallow what passes, while connections stay open; or lose answers, and end connections."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class MuteWire:
    """Passes bytes on until it is muted. What comes then is lost, and so are the connections that it came over."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.muted = threading.Event()
        self.mute_after: bytes | None = None  # the server gets what has this in it, and nobody hears what it answers
        self.losing = 0  # so many answers are lost, each with its connection
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """The same database over this way."""
        return url.replace(f":{self._to}/", f":{self.port}/")

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._to))
                except OSError:  # it is not there now
                    client.close()
                    continue
                threading.Thread(target=self._pass_on, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, forth: bool) -> None:
        lost = False
        with suppress(OSError):
            while data := source.recv(65_536):
                if self.losing and not forth:
                    self.losing -= 1
                    break
                lost = lost or self._loses(data, forth)
                if not lost:
                    target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def _loses(self, data: bytes, forth: bool) -> bool:
        if self.muted.is_set():
            return True
        if forth and self.mute_after is not None and self.mute_after in data:
            self.mute_after = None
            self.muted.set()
        return False
