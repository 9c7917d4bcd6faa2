"""A server whose answers are made to do harm: what a terminal obeys, in everything that people are shown."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Sets the title, clears the screen, hides (as one character, too), turns the writing round, goes back.
RUDE = "\x1b]0;owned\x07\x1b[2J\x9b8m\x1b[30m\u202egnorts\x08\x08"

_INFO = f"""\
redis_version:7.0{RUDE}
redis_mode:{RUDE}
run_id:abc{RUDE}
role:{RUDE}
master_host:{RUDE}
uptime_in_seconds:100000
maxmemory:1
maxmemory_policy:{RUDE}
""".replace("\n", "\r\n")


class Rude(socketserver.ThreadingTCPServer):
    """``kind``: "errors" and "refusals" for every command; "facts": what it tells of itself is odd."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, kind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.kind = kind

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.server_address[1]}"

    def answer(self, command: str) -> bytes:
        if self.kind == "facts":
            if command == "INFO":
                info = _INFO.encode()
                return b"$%d\r\n%s\r\n" % (len(info), info)
            if command == "TIME":
                return b"*2\r\n$10\r\n1795300000\r\n$1\r\n0\r\n"
            if command == "SCAN":
                return b"*2\r\n$1\r\n0\r\n*0\r\n"
        return f"-{'NOPERM' if self.kind == 'refusals' else 'ERR'} {RUDE}\r\n".encode()


class _Connection(socketserver.StreamRequestHandler):
    server: Rude

    def handle(self) -> None:
        while head := self.rfile.readline():
            words = []
            for _ in range(int(head[1:])):
                length = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(length + 2)[:-2])
            try:
                self.wfile.write(self.server.answer(words[0].decode().upper()))
            except OSError:
                return


@contextmanager
def rude(kind: str) -> Iterator[str]:
    """Such a server, while it is needed; its URL."""
    with Rude(kind) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()
