"""A worker that looks at its own stack: where the time of a pair goes.

    python bench/harness/sampling.py ADAPTER

The worker of ``bench/contestants/python/worker.py`` for contestants that are blocking and live in the
project's own environment, with one request more:

``{"do": "sampled", "lock": NAME, "count": K}`` answers with ``stacks``, a list of ``[[FUNCTION, ...], STEP,
samples]``. A timer of the kernel interrupts the thread at random instants of real time; what it does then is
counted. There is no second thread, which would see the first one only where it waits.
"""

from __future__ import annotations

import linecache
import random
import re
import resource
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "bench/contestants/python"), str(ROOT / "bench/contestants")]

from library import usage  # noqa: E402
from threads import Threads  # noqa: E402
from worker import Worker, main  # noqa: E402

#: Seconds between two looks, on average. Never in step with what is looked at.
MEAN_S = 0.001

#: What the innermost line does, by the call that it makes; the first that fits. redis-py waits in `recv`.
CALLS = (
    ("send", re.compile(r"\.(send|sendall|sendmsg|send_packed_command)\(")),
    ("wait", re.compile(r"\.(poll|select)\(|\bselect\(|epoll\(")),
    ("read", re.compile(r"\.(recv|recv_into|feed|gets)\(|\bgets\(|\brecv\(")),
    ("build", re.compile(r"\bpack(_command)?\(|by_sha\(|\.encode\(")),
)
#: Else by the innermost file of these; a decoded reply is read, whoever wrote the decoder.
FILES = (
    ("read", re.compile(r"/rules/replies\.py:|/redis/_parsers/")),
    ("build", re.compile(r"/rules/(scripts|forms|keys)\.py:|/redis/.*:.*pack")),
    (
        "count",
        re.compile(
            r"/rules/(quorum|restart_guard)\.py:|/_driver/(rounds|fanout|roster|traffic|links)\.py:|/_sync/(fanout|roster|links)\.py:"
        ),
    ),
    ("rest", re.compile(r"/rlock/|/redis/")),
)

Line = tuple[CodeType, int]


def step(lines: Sequence[Line]) -> str:
    """To which step of a pair a stack belongs, the innermost line first; ``rest``: to none of the others."""
    code, line = lines[0]
    text = linecache.getline(code.co_filename, line)
    for name, pattern in CALLS:
        if pattern.search(text):
            # Over a blocking socket the wait for an answer is within the read.
            blocking = "/redis/" in code.co_filename and "recv" in text
            return "wait" if name == "read" and blocking else name
    for code, _ in lines:
        place = f"{code.co_filename}:{code.co_name}"
        for name, pattern in FILES:
            if pattern.search(place):
                return name
    return "rest"


def call(line: str) -> str:
    """The call into C that a line makes, for the end of a stack; empty: it makes none that takes time."""
    found = re.search(r"\b(sendall|sendmsg|send|poll|select|recv_into|recv|feed|gets|pack_command)\(", line)
    return f"[{found[1]}]" if found else ""


class Sampler:
    """Counts stacks while it is entered. For the main thread, which is where signals are handled."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.counts: Counter[tuple[Line, ...]] = Counter()
        self._outside: FrameType | None = None

    def __enter__(self) -> Sampler:
        self._outside = sys._getframe(1)
        self._before = signal.signal(signal.SIGALRM, self._look)
        self._again()
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
        self._outside = None

    def _again(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._random.uniform(0.5, 1.5) * MEAN_S)

    def _look(self, _: int, frame: FrameType | None) -> None:
        found: list[Line] = []
        while frame is not None and frame is not self._outside:
            # Between two lines there is none.
            line: int | None = frame.f_lineno
            found.append((frame.f_code, line or frame.f_code.co_firstlineno))
            frame = frame.f_back
        # On a busy machine the next signal may find this one's handler.
        if not any(code in _OWN for code, _ in found):
            self.counts[tuple(found)] += 1
        self._again()

    def stacks(self, outermost: str) -> list[tuple[list[str], str, int]]:
        """What was seen, from the function `outermost` inwards: names of functions, the step, how often."""
        merged: Counter[tuple[tuple[str, ...], str]] = Counter()
        for lines, seen in self.counts.items():
            names = [named(code) for code, _ in lines]
            if outermost not in names:
                continue  # the sampler's own way in and out
            code, line = lines[0]
            inwards = names[: names.index(outermost)][::-1]
            leaf = call(linecache.getline(code.co_filename, line))
            merged[(*inwards, *filter(None, [leaf])), step(lines)] += seen
        return [(list(names), of, seen) for (names, of), seen in sorted(merged.items())]


#: What the sampler does itself is nobody's time.
_OWN = frozenset({Sampler._look.__code__, Sampler._again.__code__})


def named(code: CodeType) -> str:
    """A function as a stack shows it: where it stands, and its name."""
    path = Path(code.co_filename)
    name = getattr(code, "co_qualname", code.co_name)  # Python 3.11
    return f"{path.parent.name}/{path.stem}:{name}"


class Performer(Threads):
    """The verbs; and `sampled`."""

    def sampled(self, lock: str, count: int) -> dict[str, Any]:
        with Sampler(random.randrange(1 << 30)) as sampler:
            reply = self.pairs(lock, count)
        return {"stacks": sampler.stacks("python/threads:_pairs"), "errors": reply["errors"]}


def split_usage() -> dict[str, Any]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {**usage(), "user_ns": round(used.ru_utime * 1e9), "system_ns": round(used.ru_stime * 1e9)}


class SampledWorker(Worker):
    """A worker as any other one, that answers `sampled`, too, and tells user and system time apart."""

    threads = Performer

    def method(self, verb: str) -> Any:
        if verb == "usage":
            return split_usage
        if verb == "sampled" and self.performer is not None:
            return self.performer.sampled  # type: ignore[union-attr]
        return super().method(verb)


if __name__ == "__main__":
    main(SampledWorker)
