"""The server of the page: plain HTTP for GET and HEAD, one request a connection, everything bounded.

One request a connection, because a browser keeps connections open that it does not use, and each would
hold a thread. A request that does not come in time is dropped; when all threads are taken, the oldest of
those that still wait for a request gives its own back, so that idle connections keep nobody out.
"""

from __future__ import annotations

import contextlib
import io
import logging
import select
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from .answers import Answer, told
from .hosts import Guests

log = logging.getLogger("rlock")

THREADS = 32
HEAD_S = 5.0  # for the whole request line with its headers, however it drips
BODY_S = 10.0  # for the whole answer, to a reader however slow
HEAD_BYTES = 32_768
LINGER_S = 0.5
LINGER_BYTES = 1_000_000

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
#: With every answer, errors included.
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Server(socketserver.TCPServer):
    """Answers ``answer(path)`` to those who name us in the Host header. Listens once it is made."""

    allow_reuse_address = True  # or a restart would find the port in use for a minute
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        family: socket.AddressFamily,
        answer: Callable[[str], Answer],
        guests: Guests,
        *,
        threads: int = THREADS,
        head_s: float = HEAD_S,
        body_s: float = BODY_S,
    ) -> None:
        self.address_family = family
        self.answer, self.guests = answer, guests
        self.head_s, self.body_s = head_s, body_s
        self._room = threading.Semaphore(threads)
        self._mutex = threading.Lock()
        self._expected: dict[socket.socket, None] = {}  # whose request has not come yet, oldest first
        super().__init__(address, Handler)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.socket.getsockname()[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread; without a free one, take that of the longest idle one."""
        if not self._room.acquire(blocking=False):
            self._hurry()
            if not self._room.acquire(timeout=0.2):
                self._refuse(request)
                return
        with self._mutex:
            self._expected[request] = None
        thread = threading.Thread(target=self._serve, args=(request, client_address), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the machine gives no more threads
            self._done(request)

    def come(self, request: socket.socket) -> None:
        """Its request is here: it is not idle any more."""
        with self._mutex:
            self._expected.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that went away is no news; anything else is ours."""
        if not isinstance(sys.exc_info()[1], OSError):
            log.exception("a request was not answered")

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            self._done(request)

    def _done(self, request: socket.socket) -> None:
        self.come(request)
        with contextlib.suppress(OSError):
            self.shutdown_request(request)
        self._room.release()

    def _hurry(self) -> None:
        with self._mutex:
            oldest = next(iter(self._expected), None)
        if oldest is not None:
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and ends

    def _refuse(self, request: socket.socket) -> None:
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.send(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\r\n")
        self.shutdown_request(request)


class Handler(BaseHTTPRequestHandler):
    """One request: read within a time, checked, answered."""

    protocol_version = "HTTP/1.1"
    server: Server
    head: bytes
    written: io.BytesIO

    def setup(self) -> None:
        """Read the head as a whole: a time-out for each read would let one byte a second go on for ever."""
        self.connection = self.request
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head = _head(self.connection, self.server.head_s)
        self.server.come(self.connection)
        self.connection.settimeout(self.server.body_s)
        self.rfile = io.BytesIO(self.head)
        self.wfile = self.written = io.BytesIO()

    def finish(self) -> None:
        """Send the answer, and take what the other side still sends: else it would see a reset instead."""
        self.connection.sendall(self.written.getvalue())  # its time-out is for all of it
        self.connection.shutdown(socket.SHUT_WR)
        until, left = time.monotonic() + LINGER_S, LINGER_BYTES
        while left > 0 and (rest := until - time.monotonic()) > 0:
            if not select.select([self.connection], [], [], rest)[0]:
                break
            taken = len(self.connection.recv(65536))
            if not taken:
                break
            left -= taken

    def handle(self) -> None:
        """One request, then the end."""
        if not self.head:
            return  # nobody asked anything
        if len(self.head) > HEAD_BYTES and not _whole(self.head):
            self.raw_requestline, self.requestline, self.command = b"", "", ""
            self.request_version = "HTTP/1.1"
            self.send_error(431)
            return
        self.handle_one_request()

    def parse_request(self) -> bool:
        """The request line and the headers, and whether it is a request that we answer."""
        if not super().parse_request():
            return False
        self.close_connection = True
        if not _whole(self.head):
            self._send(told(408, "the request did not end in time"))
            return False
        if self.command not in ("GET", "HEAD"):
            self._send(told(405, "this page changes nothing: only GET and HEAD", Allow="GET, HEAD"))
            return False
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not self.path.startswith("/"):
            self._send(told(400, "a path and one Host header are needed"))
            return False
        if not self.server.guests.admits(hosts[0]):
            # Without the name: it is not to be echoed.
            self._send(
                told(403, "this page does not answer to that host name; see rlock dashboard --allow-host")
            )
            return False
        return True

    def handle_expect_100(self) -> bool:
        """A body is not wanted; the answer says so."""
        return True

    def do_GET(self) -> None:
        """The answer to a path."""
        try:
            answer = self.server.answer(self.path)
        except Exception:
            log.exception("a request was not answered")
            answer = told(500, "a fault of the dashboard; the terminal that it runs in says more")
        self._send(answer)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def version_string(self) -> str:
        """Nothing about Python: who attacks a version does not learn it here."""
        return "rlock"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """One line of text. Not the one of http.server, which echoes what was sent."""
        self._send(told(code, self.responses[code][0]))

    def log_message(self, *args: Any) -> None:
        """No log of requests: a page that asks every second would fill the terminal."""

    def _send(self, answer: Answer) -> None:
        body, headers = answer.body, {**HEADERS, **answer.headers}
        asked = getattr(self, "headers", None)
        if answer.zipped is not None:
            headers["Vary"] = "Accept-Encoding"
            if asked is not None and _takes_gzip(asked.get("Accept-Encoding", "")):
                body, headers["Content-Encoding"] = answer.zipped, "gzip"
        # An answer without a status line is none: HTTP/0.9 is garbage to us, too.
        self.request_version = "HTTP/1.1"
        self.close_connection = True
        self.send_response(answer.status)
        for name, value in {**headers, "Content-Type": answer.kind, "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _takes_gzip(accepted: str) -> bool:
    return any(part.split(";")[0].strip().lower() == "gzip" for part in accepted.split(","))


def _whole(head: bytes) -> bool:
    return b"\r\n\r\n" in head or b"\n\n" in head


def _head(connection: socket.socket, within_s: float) -> bytes:
    """What arrives until an empty line, the end, ``within_s``, or one byte more than we take."""
    until, head = time.monotonic() + within_s, b""
    while len(head) <= HEAD_BYTES and not _whole(head):
        rest = until - time.monotonic()
        if rest <= 0:
            break
        connection.settimeout(rest)
        try:
            piece = connection.recv(HEAD_BYTES + 1 - len(head))
        except OSError:
            break
        if not piece:
            break
        head += piece
    return head
