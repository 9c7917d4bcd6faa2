"""What is answered to which path: the page, the last look, one lock, metrics. No sockets in here."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Protocol
from urllib.parse import unquote

from ...errors import OptionsError, QuorumUnreachableError, RLockError
from ...model import LockStatus
from ..output import plain
from . import gauges
from .poller import SCRAPE_S, Sight

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

#: The page: what it consists of, and what each part is.
PAGE = {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "words.js": "text/javascript; charset=utf-8",
    "table.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

#: For a lock that many browsers look at: masters are asked once in this time.
STATUS_S = 0.9
STATUSES = 64  # that are kept

NO_METRICS = "no metrics: prometheus-client is not installed: pip install prometheus-client\n"


@dataclass(frozen=True)
class Answer:
    """One answer, before it becomes HTTP."""

    status: int
    kind: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    zipped: bytes | None = None  # the same body, for clients that take gzip


def told(status: int, text: str, **headers: str) -> Answer:
    """One line of text."""
    return Answer(status, TEXT, f"{text}\n".encode(), {k.replace("_", "-"): v for k, v in headers.items()})


def encoded(value: Any) -> bytes:
    """JSON. Escaped to ASCII: half a surrogate pair, say in a holder's name, has no bytes in UTF-8."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


class Watched(Protocol):
    """What is asked for the last look: a `Poller`."""

    def sight(self, *, stay_s: float | None = None) -> Sight:
        """What was seen last."""


class Answers:
    """Answers each path. ``status`` asks the masters for one lock. Any thread may call."""

    def __init__(self, poller: Watched, status: Callable[[str], LockStatus]) -> None:
        self._lookout = poller
        self._ask = status
        self._mutex = threading.Lock()
        self._statuses: dict[str, tuple[float, Answer]] = {}
        self._drawn: tuple[Sight, Answer] | None = None
        folder = resources.files(__package__) / "page"
        self._page = {name: Answer(200, kind, (folder / name).read_bytes()) for name, kind in PAGE.items()}

    def answer(self, target: str) -> Answer:
        """The answer to GET of a target: a path and maybe a query, still percent-encoded."""
        path, _, query = target.partition("#")[0].partition("?")
        if path == "/":
            return self._page["index.html"]
        if (part := path[1:]) in self._page:
            return self._page[part]
        if path == "/api/snapshot":
            return self._snapshot()
        if path.startswith("/api/lock/"):
            return self._lock(path.removeprefix("/api/lock/"))
        if path == "/api/lock" and query.startswith("name="):
            # What the page itself asks with: no browser can send the names "." and ".." in a path, and
            # there are proxies that take %2F for a slash.
            return self._lock(query.removeprefix("name="))
        if path == "/metrics":
            return self._metrics()
        if path == "/healthz":
            return told(200, "ok")
        return told(404, "there is nothing here: see / or /api/snapshot")

    def _snapshot(self) -> Answer:
        sight = self._lookout.sight()
        if sight.snapshot is None:
            why = sight.error or "the first look at the masters has not ended yet"
            return Answer(503, JSON, encoded({"error": why}), {"Retry-After": "1"})
        with self._mutex:
            # Drawn once for all who watch.
            if self._drawn is None or self._drawn[0] is not sight:
                body = encoded(sight.snapshot)
                self._drawn = (sight, Answer(200, JSON, body, zipped=gzip.compress(body, 1)))
            drawn = self._drawn[1]
        # An age and no instant: the clock of the browser's machine may be another one.
        headers = {"Rlock-Age": f"{sight.age:.3f}"}
        if sight.error is not None:
            headers["Rlock-Error"] = json.dumps(sight.error)
        return Answer(drawn.status, drawn.kind, drawn.body, headers, drawn.zipped)

    def _lock(self, quoted: str) -> Answer:
        try:
            name = unquote(quoted, errors="strict")
        except UnicodeDecodeError:
            return Answer(400, JSON, encoded({"error": "the lock's name is not UTF-8, percent-encoded"}))
        now = time.monotonic()
        with self._mutex:
            known = self._statuses.get(name)
            if known is not None and now - known[0] < STATUS_S:
                return known[1]
        answer = self._asked(name)
        with self._mutex:
            self._statuses.pop(name, None)
            while len(self._statuses) >= STATUSES:
                del self._statuses[next(iter(self._statuses))]  # the oldest
            self._statuses[name] = (now, answer)
        return answer

    def _asked(self, name: str) -> Answer:
        try:
            return Answer(200, JSON, encoded(self._ask(name)))
        except OptionsError as error:
            return Answer(400, JSON, encoded({"name": name, "error": str(error)}))
        except QuorumUnreachableError as error:
            faults = [{"master": master, "fault": fault} for master, fault in error.faults.items()]
            value = {"name": name, "error": str(error), "quorum": error.quorum, "masters": faults}
            return Answer(503, JSON, encoded(value))
        except RLockError as error:
            return Answer(503, JSON, encoded({"name": name, "error": str(error)}))

    def _metrics(self) -> Answer:
        try:
            from prometheus_client import CONTENT_TYPE_LATEST
        except ImportError:
            return Answer(404, TEXT, NO_METRICS.encode())
        return Answer(200, CONTENT_TYPE_LATEST, gauges.text(self._lookout.sight(stay_s=SCRAPE_S)))
