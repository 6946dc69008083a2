"""A way to a broker on which its answers are lost, or requests wait until their senders have given up."""

from __future__ import annotations

import threading
from typing import Final

from tests.mute import MuteWire

END_TXN: Final = (26).to_bytes(2, "big")  # the kind of request that commits or aborts, which follows its length


class KafkaWire(MuteWire):
    """Passes bytes on unless it is told otherwise. A connection that has lost an answer gets none any more."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._loses_answers = threading.Event()
        self._loses_next_end = threading.Event()
        self._passes = threading.Event()
        self._passes.set()

    def lose_answers(self) -> None:
        """From now on the broker gets all requests, and nobody gets its answers."""
        self._loses_answers.set()

    def lose_answers_to_the_end_of_a_transaction(self) -> None:
        """The same, from the next request that ends a transaction."""
        self._loses_next_end.set()

    def hold(self) -> None:
        """From now on requests wait. Those of a connection that its client closes meanwhile reach the broker too."""
        self._passes.clear()

    def pass_on(self) -> None:
        """Ends what the other calls began."""
        self._loses_answers.clear()
        self._loses_next_end.clear()
        self._passes.set()

    def _loses(self, data: bytes, forth: bool) -> bool:
        if not forth:
            return self._loses_answers.is_set()
        self._passes.wait()
        if data[4:6] == END_TXN and self._loses_next_end.is_set():
            self._loses_answers.set()
        return False
