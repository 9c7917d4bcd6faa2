"""The server of the page: the standard library's threading server, for GET and HEAD.

One request a connection, because a browser keeps connections open that it does not use, and each would hold a
thread. Threads, the time and the size of a request, and the time of an answer are bounded.
"""

from __future__ import annotations

import contextlib
import io
import logging
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from .answers import Answer, text_answer
from .hosts import AllowedHosts

log = logging.getLogger("rlock")

THREADS = 32
HEAD_S = 5.0  # for the whole request line with its headers, however slowly they come
BODY_S = 10.0  # for each write of the answer, to a slow reader
HEAD_BYTES = 32_768
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"

#: With every answer, errors included.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}


class Server(socketserver.ThreadingTCPServer):
    """Answers ``answer(path)`` to requests whose Host header names us. Listens once it is made."""

    allow_reuse_address = True  # or a restart would find the port in use for a minute
    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        family: socket.AddressFamily,
        answer: Callable[[str], Answer],
        hosts: AllowedHosts,
        *,
        threads: int = THREADS,
        head_s: float = HEAD_S,
    ) -> None:
        self.address_family = family
        self.answer, self.hosts, self.head_s = answer, hosts, head_s
        self._free = threading.Semaphore(threads)
        super().__init__(address, Handler)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.socket.getsockname()[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread, if one is free."""
        if self._free.acquire(timeout=0.2):
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.send(BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that went away is no news; any other error is a fault of ours."""
        if not isinstance(sys.exc_info()[1], OSError):
            log.exception("a request was not answered")


class Handler(BaseHTTPRequestHandler):
    """One request: read within a time, checked, answered."""

    protocol_version = "HTTP/1.1"
    timeout = BODY_S
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        """Read the head as a whole: a time-out for each read would let one byte a second go on for ever."""
        super().setup()
        self._head = _head(self.connection, self.server.head_s)
        self.connection.settimeout(self.timeout)
        self.rfile = io.BufferedReader(io.BytesIO(self._head))

    def parse_request(self) -> bool:
        """The request line and the headers, and whether it is a request that we answer."""
        if not super().parse_request():
            return False
        hosts = self.headers.get_all("Host", [])
        if not _whole(self._head):
            answer = text_answer(408, "the request did not end in time")
        elif self.command not in ("GET", "HEAD"):
            answer = text_answer(405, "this page changes nothing: only GET and HEAD", Allow="GET, HEAD")
        elif len(hosts) != 1 or not self.path.startswith("/"):
            answer = text_answer(400, "a path and one Host header are needed")
        elif not self.server.hosts.admit(hosts[0]):
            # Without the name, which somebody else may have chosen.
            answer = text_answer(403, "this page does not answer to that host name; see --allow-host")
        else:
            return True
        self._send(answer)
        return False

    def handle_expect_100(self) -> bool:
        """A body is not wanted; the answer says so."""
        return True

    def do_GET(self) -> None:
        """The answer to a path."""
        try:
            answer = self.server.answer(self.path)
        except Exception:
            log.exception("a request was not answered")
            answer = text_answer(500, "a fault of the dashboard; the terminal that it runs in says more")
        self._send(answer)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def version_string(self) -> str:
        """Nothing about Python: an attacker of a version does not learn it here."""
        return "rlock"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """One line of text. http.server's own would echo the request."""
        self._send(text_answer(code, self.responses[code][0]))

    def log_message(self, *args: Any) -> None:
        """No log of requests: a page that asks every second would fill the terminal."""

    def _send(self, answer: Answer) -> None:
        # Without a status line it would be HTTP/0.9, which browsers show whatever it holds.
        self.request_version = "HTTP/1.1"
        self.close_connection = True
        self.send_response(answer.status)
        length = str(len(answer.body))
        for name, value in {
            **HEADERS,
            **answer.headers,
            "Content-Type": answer.kind,
            "Content-Length": length,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


def _whole(head: bytes) -> bool:
    return b"\r\n\r\n" in head or b"\n\n" in head


def _head(connection: socket.socket, within_s: float) -> bytes:
    """The bytes until an empty line, the end, ``within_s``, or the largest size that is read."""
    until, head = time.monotonic() + within_s, b""
    with contextlib.suppress(OSError):
        while len(head) <= HEAD_BYTES and not _whole(head) and (rest := until - time.monotonic()) > 0:
            connection.settimeout(rest)
            piece = connection.recv(HEAD_BYTES + 1 - len(head))
            if not piece:
                break
            head += piece
    return head
