"""A server that does harm: answers that a terminal obeys, and such as no command has."""

from __future__ import annotations

import itertools
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Sets the title, clears the screen, hides (as one character, too), turns the writing round, goes back.
RUDE = "\x1b]0;owned\x07\x1b[2J\x9b8m\x1b[30m\u202egnorts\x08\x08"

#: Answers on the wire: of other types, too long, too short, of a protocol that nobody asked for.
SHAPES = (
    b"*0\r\n",
    b"*-1\r\n",
    b"$-1\r\n",
    b":-9223372036854775808\r\n",
    b"*1\r\n*1\r\n*0\r\n",
    b"*2\r\n$3\r\ninf\r\n$3\r\nnan\r\n",
    b"*3\r\n$7\r\nmessage\r\n*0\r\n:5\r\n",
    b"*6\r\n" + b":1\r\n" * 6,
    b"*9\r\n" + b":1\r\n" * 9,
    b"*9\r\n" + b"*0\r\n" * 9,
    b"$2\r\n\xff\xfe\r\n",
    b",nan\r\n",
    b"%1\r\n*0\r\n:1\r\n",
    b">2\r\n:1\r\n:2\r\n",
    b"*99999999999\r\n",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
)

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
    """``kind``: "errors" and "refusals" for every command; "facts": what it tells of itself is odd.

    "shapes": what no command answers with, one after another; "shapes of scripts": once it is connected.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, kind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.kind = kind
        self._shapes = itertools.cycle(SHAPES)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.server_address[1]}"

    def answer(self, command: str) -> bytes:
        if self.kind == "shapes" or (
            self.kind == "shapes of scripts" and command in ("EVALSHA", "SUBSCRIBE")
        ):
            return next(self._shapes)
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
