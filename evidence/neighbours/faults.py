"""The bad neighbours: a proxy in front of a master, a resolver, and servers that answer from a grammar."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from random import Random
from typing import Any
from unittest import mock

import hiredis
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rlock.rules import scripts
from rlock.testing.local.spawn import free_port
from tests.faults.proxy import Proxy

LINE = st.binary(max_size=12).map(lambda data: data.replace(b"\r", b"").replace(b"\n", b""))
#: Lengths of texts and arrays: right ones, wrong ones, absurd ones.
LENGTH = st.sampled_from((b"0", b"1", b"2", b"-1", b"-7", b"4000000000", b"9" * 30, b"x"))
SIMPLE = st.one_of(
    *(
        st.builds(b"%b%b\r\n".__mod__, st.tuples(st.just(mark), LINE))
        for mark in (b"+", b"-", b":", b",", b"(", b"#")
    ),
    st.sampled_from((b"_\r\n", b"$-1\r\n", b"*-1\r\n", b"-ERR what\r\n", b"-LOADING wait\r\n", b":1\r\n")),
    LINE.map(lambda data: b"$%d\r\n%b\r\n" % (len(data), data)),
    st.builds(b"%b%b\r\n%b\r\n".__mod__, st.tuples(st.sampled_from((b"$", b"=", b"!")), LENGTH, LINE)),
)


def _nested(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    items = st.lists(inner, max_size=9)
    right = st.builds(lambda found: b"*%d\r\n%b" % (len(found), b"".join(found)), items)
    marks = st.sampled_from((b"*", b"%", b"~", b">", b"|"))
    return right | st.builds(lambda m, n, found: b"%b%b\r\n" % (m, n) + b"".join(found), marks, LENGTH, items)


REPLY = st.recursive(SIMPLE, _nested, max_leaves=12)  # a reply of RESP2 or RESP3, whole, wrong or cut
REPLY |= st.builds(lambda reply, at: reply[: at % (len(reply) + 1)], REPLY, st.integers(0, 99))


@cache
def replies(count: int = 300) -> list[bytes]:
    """Random replies of the grammar, the same in each run."""
    found: list[bytes] = []

    @settings(max_examples=count, database=None, derandomize=True, phases=[Phase.generate], deadline=None)
    @given(REPLY)
    def collect(reply: bytes) -> None:
        found.append(reply)

    collect()
    return [reply for reply in found if reply]


@contextmanager
def server(answer: Callable[[str], bytes | Iterator[bytes]]) -> Iterator[str]:
    """``host:port`` of a server that gives ``answer(command)`` to each command, or each part of it."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            reader = hiredis.Reader()
            with suppress(OSError):  # the client has gone
                while data := self.request.recv(1 << 16):
                    reader.feed(data)
                    while (words := reader.gets()) is not False:
                        parts = answer(words[0].decode().upper())
                        for part in [parts] if isinstance(parts, bytes) else parts:
                            self.request.sendall(part)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as made:
        made.daemon_threads, made.block_on_close = True, False
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{made.server_address[1]}"
        made.shutdown()


class Neighbour:
    """One bad master: its URL, and how it goes bad. ``label``: its name, if the log has to tell of it."""

    def __init__(self, url: str, seed: int) -> None:
        self.url = self.label = self.direct = url
        self.seed, self.open = seed, ExitStack()

    def behind_proxy(self) -> Proxy:
        proxy = Proxy(self.direct)
        self.open.callback(proxy.close)
        self.url = self.label = proxy.url
        return proxy

    def any_reply(self) -> Callable[..., bytes]:
        dice = Random(self.seed)
        return lambda *_: dice.choice(replies())

    def again_and_again(self, work: Callable[[], object], pause: float) -> None:
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(pause):
                work()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.open.callback(thread.join)
        self.open.callback(ended.set)


#: Faults of a proxy in front of a healthy master; they begin in mid-work.
LATER: dict[str, Callable[[Neighbour, Proxy], object]] = {
    "none": lambda bad, proxy: setattr(bad, "label", ""),
    "swallows all": lambda bad, proxy: proxy.cut(),
    "swallows replies": lambda bad, proxy: proxy.cut(requests=False),
    "stalls": lambda bad, proxy: proxy.hold(),
    "trickles a byte a second": lambda bad, proxy: setattr(proxy, "trickle_s", 1.0),
    "drops connections": lambda bad, proxy: bad.again_and_again(proxy.reset, 0.05),
    "cuts inside replies": lambda bad, proxy: bad.again_and_again(
        lambda: proxy.lose_reply(scripts.ACQUIRE, "torn"), 0.02
    ),
    "answers anything": lambda bad, proxy: setattr(proxy, "lie", bad.any_reply()),
    "messages vanish": lambda bad, proxy: proxy.forget_subscribers(later_ones=True),
}

LIES = {
    "a text of 8 GB": b"$8000000000\r\n" + b"x" * 65_536,
    "an array of 4 * 10^9": b"*4000000000\r\n",
    "an array of 10^8": b"*100000000\r\n",
    "an array without an end": b"*9999\r\n" * 3 + b"*0\r\n" * 9_000,
    "10,000 levels": b"*1\r\n" * 10_000,
    "9,000 arrays": b"*9000\r\n" + b"*0\r\n" * 9_000,
    "no RESP": b"HTTP/1.1 400 Bad Request\r\n",
}
for name, lie in LIES.items():
    LATER[f"answers {name}"] = lambda bad, proxy, lie=lie: setattr(proxy, "lie", lie)  # type: ignore[misc]


def _refuses(bad: Neighbour) -> None:
    bad.url = bad.label = f"redis://127.0.0.1:{free_port()}"


def _hangs(bad: Neighbour) -> None:
    look_up, mended = socket.getaddrinfo, threading.Event()

    def slow(host: Any, *args: Any, **options: Any) -> Any:
        if host == "hangs.test" and not options.get("flags", 0) & socket.AI_NUMERICHOST:
            mended.wait(60.0)
            raise socket.gaierror(socket.EAI_AGAIN, "it took too long")
        return look_up(host, *args, **options)

    bad.open.enter_context(mock.patch.object(socket, "getaddrinfo", slow))
    bad.open.callback(mended.set)
    bad.url = bad.label = "redis://hangs.test:6379"


def _master(bad: Neighbour, answer: Callable[[str], bytes]) -> None:
    bad.url = bad.label = "redis://" + bad.open.enter_context(server(answer))


def _mute(_: str) -> bytes:
    time.sleep(60.0)
    return b""


def _sentinel(bad: Neighbour) -> None:
    """A group whose first Sentinel answers anything, and two tell the truth: the master itself is healthy."""
    port = bad.direct.rpartition(":")[2].encode()
    words = (b"name", b"m", b"ip", b"127.0.0.1", b"port", port, b"config-epoch", b"7")
    truth = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    answers = (bad.any_reply(), lambda _: truth, lambda _: truth)
    places = [bad.open.enter_context(server(answer)) for answer in answers]
    bad.url, bad.label = f"redis+sentinel://{','.join(places)}/m?replicas=0", ""


#: Neighbours that were bad before the client came.
FIRST: dict[str, Callable[[Neighbour], object]] = {
    "refuses connections": _refuses,
    "a name that hangs": _hangs,
    "accepts and says nothing": lambda bad: _master(bad, _mute),
    "a fake master": lambda bad: _master(bad, bad.any_reply()),
    "a fake Sentinel": _sentinel,
}
