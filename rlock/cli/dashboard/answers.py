"""The answer to each path: the page, the last look, one lock, metrics. No sockets in here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ...errors import OptionsError, QuorumUnreachableError, RLockError
from ...model import LockStatus
from ..output import plain
from . import gauges
from .poller import Sight

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

#: The kinds of the files of the page.
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Answer:
    """One answer, before it becomes HTTP."""

    status: int
    kind: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def text_answer(status: int, text: str, **headers: str) -> Answer:
    """One line of text."""
    return Answer(status, TEXT, f"{text}\n".encode(), headers)


def json_answer(status: int, value: Any, headers: Mapping[str, str] | None = None) -> Answer:
    """JSON. Escaped to ASCII: half a surrogate pair, say in a holder's name, has no bytes in UTF-8."""
    body = json.dumps(plain(value), allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
    return Answer(status, JSON, body, headers or {})


class Answers:
    """Answers each path. ``sight``: the last look; ``status``: asks the masters for one lock."""

    def __init__(self, sight: Callable[[], Sight], status: Callable[[str], LockStatus]) -> None:
        self._sight = sight
        self._status = status
        self._page = {
            file.name: Answer(200, f"{kind}; charset=utf-8", file.read_bytes())
            for file in (resources.files(__package__) / "page").iterdir()
            if (kind := KINDS.get(Path(file.name).suffix)) is not None
        }

    def answer(self, target: str) -> Answer:
        """The answer to GET of a target: a path and maybe a query, still percent-encoded."""
        path, _, query = target.partition("#")[0].partition("?")
        part = path[1:] or "index.html"
        if part in self._page:
            return self._page[part]
        if path == "/api/snapshot":
            return self._snapshot()
        if path.startswith("/api/lock/"):
            return self._lock(path.removeprefix("/api/lock/"))
        if path == "/api/lock" and query.startswith("name="):
            # The page itself asks so: no browser can send the names "." and ".." in a path, and there are
            # proxies that take %2F for a slash.
            return self._lock(query.removeprefix("name="))
        if path == "/metrics":
            return self._metrics()
        if path == "/healthz":
            return text_answer(200, "ok")
        return text_answer(404, "there is nothing here: see / or /api/snapshot")

    def _snapshot(self) -> Answer:
        sight = self._sight()
        if sight.snapshot is None:
            why = sight.error or "the first look at the masters has not ended yet"
            return json_answer(503, {"error": why}, {"Retry-After": "1"})
        # An age and no instant: the clock of the browser's machine may differ.
        headers = {"Rlock-Age": f"{sight.age:.3f}"}
        if sight.error is not None:
            headers["Rlock-Error"] = json.dumps(sight.error)
        return json_answer(200, sight.snapshot, headers)

    def _lock(self, quoted: str) -> Answer:
        try:
            name = unquote(quoted, errors="strict")
        except UnicodeDecodeError:
            return json_answer(400, {"error": "the lock's name is not UTF-8, percent-encoded"})
        try:
            return json_answer(200, self._status(name))
        except OptionsError as error:
            return json_answer(400, {"name": name, "error": str(error)})
        except QuorumUnreachableError as error:
            faults = [{"master": master, "fault": fault} for master, fault in error.faults.items()]
            value = {"name": name, "error": str(error), "quorum": error.quorum, "masters": faults}
            return json_answer(503, value)
        except RLockError as error:
            return json_answer(503, {"name": name, "error": str(error)})

    def _metrics(self) -> Answer:
        try:
            from prometheus_client import CONTENT_TYPE_LATEST
        except ImportError:
            told = "no metrics: prometheus-client is not installed: pip install prometheus-client"
            return text_answer(404, told)
        return Answer(200, CONTENT_TYPE_LATEST, gauges.page(self._sight()))
