"""A Java process that holds Redisson's locks, as an object: requests out, answers in, signals."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from .building import Build

if TYPE_CHECKING:
    from typing_extensions import Self

#: A JVM starts in a second or two here; a machine that compiles something at the same time takes longer.
START_S = 60.0
#: No single request takes a tenth of it, unless a master is gone or the lock is somebody else's.
ANSWER_S = 30.0


class JavaError(Exception):
    """What Java raised: the name of its class, and what it said."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message


@dataclass(frozen=True)
class Answer:
    """A result, and System.nanoTime() when Java knew it: comparable with ``time.monotonic_ns()``."""

    value: Any
    at: int


class Jvm:
    """One process. Use it in a ``with`` block: nothing is left of it behind that."""

    def __init__(self, build: Build, folder: Path) -> None:
        self.build = build
        self._errors = (folder / "java-errors.txt").open("a+b")
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Answer]] = {}
        self._mutex = threading.Lock()
        self._ended = False
        self.process = subprocess.Popen(
            build.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # A terminal's Ctrl-C is pytest's; the JVM ends with its stdin.
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in: IO[bytes] = self.process.stdin
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reader.start()
        try:
            self.hello: dict[str, Any] = self.call("hello", within_s=START_S)
        except BaseException:
            self.close()
            raise

    def client(
        self, urls: Sequence[str], name: str = "main", within_s: float = ANSWER_S, **options: Any
    ) -> Client:
        """A RedissonClient for each master. An earlier one of that name is closed.

        ``options``: watchdog_ms, timeout_ms, connect_ms, retries, retry_ms; what Redisson calls them.
        """
        told = self.call("client", within_s=within_s, client=name, urls=[*urls], **options)
        return Client(self, name, tuple(told["ids"]), told["lease_ms"])

    def begin(self, do: str, **options: Any) -> Future[Answer]:
        """Ask for something, and do not wait for the answer. What the future raises is a `JavaError`."""
        answer: Future[Answer] = Future()
        number = next(self._numbers)
        line = json.dumps({"id": number, "do": do, **options}).encode() + b"\n"
        with self._mutex:
            if self._ended:
                answer.set_exception(JavaError("Ended", self._said()))
                return answer
            self._waiting[number] = answer
            with contextlib.suppress(OSError):  # it has just ended: the reader tells the future
                self._in.write(line)
                self._in.flush()
        return answer

    def ask(self, do: str, within_s: float = ANSWER_S, **options: Any) -> Answer:
        """What it answers. Raises `JavaError`, and ``TimeoutError`` when it says nothing in time."""
        try:
            return self.begin(do, **options).result(within_s)
        except FutureTimeoutError as error:  # before Python 3.11 not the other TimeoutError
            told = f"Java did not answer {do} {options} in {within_s:g} s: {self._said()}"
            raise TimeoutError(told) from error

    def call(self, do: str, within_s: float = ANSWER_S, **options: Any) -> Any:
        """`ask`, and only the result."""
        return self.ask(do, within_s, **options).value

    def clock(self) -> int:
        """System.nanoTime()."""
        return int(self.call("clock"))

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """SIGSTOP: a long garbage collection, or a suspended machine. Returns when it has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        # It is delivered later, to each thread by itself: what is asked now might still be answered.
        deadline = time.monotonic() + 5.0
        while not self._stopped() and time.monotonic() < deadline:
            time.sleep(0.001)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it: in good order if it answers, by force if it does not."""
        if self.process.poll() is None:
            self.resume()
            with contextlib.suppress(JavaError, TimeoutError):
                self.call("quit", within_s=5.0)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(3.0)
            self.process.kill()
        self.process.wait()
        self._reader.join()
        with contextlib.suppress(OSError):  # what was not flushed, to a process that is gone
            self._in.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _stopped(self) -> bool:
        for stat in Path(f"/proc/{self.pid}/task").glob("*/stat"):
            with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
                if stat.read_text().rpartition(")")[2].split()[0] != "T":
                    return False
        return True

    def _read(self, out: IO[bytes]) -> None:
        for line in out:
            told = json.loads(line)
            with self._mutex:
                answer = self._waiting.pop(told["id"], None)
            if answer is None:
                continue
            if "error" in told:
                answer.set_exception(JavaError(told["error"], told["message"]))
            else:
                answer.set_result(Answer(told["ok"], told["at"]))
        with self._mutex:
            self._ended = True
            left, self._waiting = self._waiting, {}
        for answer in left.values():
            answer.set_exception(JavaError("Ended", self._said()))

    def _said(self) -> str:
        """What it wrote to stderr, the end of it."""
        try:
            size = os.fstat(self._errors.fileno()).st_size
            return os.pread(self._errors.fileno(), 2000, max(0, size - 2000)).decode(errors="replace")
        except ValueError:  # closed
            return ""


class Client:
    """Redisson's clients of some masters, in a Java process."""

    def __init__(self, jvm: Jvm, name: str, ids: tuple[str, ...], lease_ms: int) -> None:
        self.jvm = jvm
        self.name = name
        #: What owner tokens begin with, one for each master.
        self.ids = ids
        #: Of a hold that its watchdog renews.
        self.lease_ms = lease_ms

    def thread(self, name: str = "one") -> JavaThread:
        """A thread of this name; there is one of each name in the process."""
        return JavaThread(self, name, int(self.jvm.call("thread", thread=name)))

    def contend(self, **options: Any) -> Future[Answer]:
        """Threads that want one lock again and again (peer.Contest); the future is done when they are."""
        return self.jvm.begin("contend", client=self.name, thread=f"contend {options['label']}", **options)

    def close(self) -> None:
        self.jvm.call("close", client=self.name)


class JavaThread:
    """A thread of Java that does what it is told, one after another."""

    def __init__(self, client: Client, name: str, ident: int) -> None:
        self._client = client
        self._name = name
        self.ident = ident

    @property
    def owners(self) -> tuple[str, ...]:
        """Its owner tokens, one for each master: `<uuid>:<thread id>`."""
        return tuple(f"{ident}:{self.ident}" for ident in self._client.ids)

    def begin(self, do: str, name: str, **options: Any) -> Future[Answer]:
        return self._client.jvm.begin(do, thread=self._name, client=self._client.name, name=name, **options)

    def ask(self, do: str, name: str, within_s: float = ANSWER_S, **options: Any) -> Answer:
        return self._client.jvm.ask(
            do, within_s, thread=self._name, client=self._client.name, name=name, **options
        )

    def lock(self, name: str, **options: Any) -> Answer:
        """Wait for it. ``kind``: plain, fair, fenced, spin, read, write; ``lease_ms``: renewed by nobody."""
        return self.ask("lock", name, **options)

    def trylock(self, name: str, **options: Any) -> bool:
        """``wait_ms``, ``lease_ms``."""
        return bool(self.ask("trylock", name, **options).value)

    def unlock(self, name: str, **options: Any) -> Answer:
        return self.ask("unlock", name, **options)

    def force(self, name: str, **options: Any) -> list[bool]:
        """Of each master, whether there was anything to remove."""
        return [bool(one) for one in self.ask("force", name, **options).value]

    def status(self, name: str, **options: Any) -> Sequence[Mapping[str, Any]]:
        """Of each master: locked, mine, hold_count, ttl_ms."""
        found: list[dict[str, Any]] = self.ask("status", name, **options).value
        return found
