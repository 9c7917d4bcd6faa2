"""A peer that serves commands and closes the connection at a SUBSCRIBE, as some proxies do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

import rlock

from ..servers import Fleet


class Closer:
    """Passes everything on to a master, but for SUBSCRIBE."""

    def __init__(self, url: str) -> None:
        self._master = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listening.getsockname()[1]}"
        self.connections = self.subscribes = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                self.connections += 1
                far = socket.create_connection(self._master)
                threading.Thread(target=self._copy, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._copy, args=(far, near, False), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, to_master: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if to_master and b"SUBSCRIBE" in data:
                    self.subscribes += 1
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def closer(masters1: Fleet) -> Iterator[Closer]:
    made = Closer(masters1.urls[0])
    yield made
    made.close()


def test_a_peer_that_closes_at_subscribe_is_not_dialled_without_a_pause(
    closer: Closer, masters1: Fleet
) -> None:
    with rlock.Client(masters1.urls) as holder, rlock.Client([closer.url]) as waiter:
        with holder.lock("x"):
            assert waiter.lock("x").acquire(timeout=3.0) is False
        assert closer.subscribes >= 2, "it has to try, the peer may have been replaced"
        assert closer.connections < 30
        assert waiter.lock("x").acquire(timeout=3.0), "it polls"
