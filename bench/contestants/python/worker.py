"""The worker of a Python contestant: reads requests, runs them with one adapter, writes replies.

    python bench/contestants/python/worker.py ADAPTER

ADAPTER is ``MODULE:CLASS``, such as ``adapters.redis_py:RedisPy``; the class is called with ``masters``,
``ttl_ms`` and ``poll_ms`` and is a `Library` or an `AsyncLibrary`: see ``library.py``. This runs in the
contestant's own environment, so it imports nothing but the standard library and that module. The protocol:
``bench/contestants/README.md``.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import platform
import sys
import traceback
from pathlib import Path
from typing import IO, Any

# `adapters` is beside this file, `floors` is beside its folder.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from library import AsyncLibrary, Library, Unsupported, usage  # noqa: E402
from tasks import Tasks  # noqa: E402
from threads import Threads  # noqa: E402

#: The longest request, with many masters, is far shorter.
LONGEST_LINE = 1 << 20

VERBS = frozenset(
    "pairs nested throughput contend acquire release wait hold drop".split()  # noqa: SIM905
)


class Worker:
    def __init__(self, adapter: type[Any]) -> None:
        self.adapter = adapter
        self.library: Library | AsyncLibrary | None = None
        self.performer: Threads | Tasks | None = None

    def method(self, verb: str) -> Any:
        """What performs the request; a coroutine function if the library is for an event loop."""
        if verb == "usage":
            return usage
        if verb == "open":
            return self.open_tasks if issubclass(self.adapter, AsyncLibrary) else self.open_threads
        if verb not in VERBS:
            raise Unsupported(f"there is no request {verb}")
        if self.library is None:
            raise RuntimeError("it was not opened")
        if self.library.verbs is not None and verb not in self.library.verbs:
            raise Unsupported(f"it answers {' and '.join(sorted(self.library.verbs))} only")
        return getattr(self.performer, verb)

    def open_threads(self, **request: Any) -> dict[str, Any]:
        library: Library = self.adapter(**request)
        self.library, self.performer = library, Threads(library)
        return self.told(library)

    async def open_tasks(self, **request: Any) -> dict[str, Any]:
        library: AsyncLibrary = self.adapter(**request)
        await library.start()
        self.library, self.performer = library, Tasks(library)
        return self.told(library)

    def told(self, library: Library | AsyncLibrary) -> dict[str, Any]:
        runtime = f"{platform.python_implementation()} {platform.python_version()}"
        return {"name": library.name, "version": library.version, "runtime": runtime}


def refusal(error: Exception) -> dict[str, Any]:
    if isinstance(error, Unsupported):
        return {"ok": False, "unsupported": str(error)}
    traceback.print_exception(type(error), error, error.__traceback__)
    return {"ok": False, "error": f"{type(error).__name__}: {error}"[:300]}


def with_threads(worker: Worker, replies: IO[str]) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        verb = request.pop("do")
        if verb == "quit":
            break
        try:
            reply = {"ok": True, **worker.method(verb)(**request)}
        except Exception as error:
            reply = refusal(error)
        replies.write(json.dumps(reply) + "\n")


async def with_tasks(worker: Worker, replies: IO[str]) -> None:
    # The loop reads the requests itself, so that renewals go on between them. All are performed by this one
    # task: who asked to acquire is who asks to release.
    requests = asyncio.StreamReader(LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(requests), sys.stdin.buffer
    )
    while line := await requests.readline():
        request = json.loads(line)
        verb = request.pop("do")
        if verb == "quit":
            break
        try:
            performed = worker.method(verb)(**request)
            reply = {"ok": True, **(performed if verb == "usage" else await performed)}
        except Exception as error:
            reply = refusal(error)
        replies.write(json.dumps(reply) + "\n")


def main() -> None:
    # What libraries print is not ours to answer with.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    module, _, name = sys.argv[1].partition(":")
    worker = Worker(getattr(importlib.import_module(module), name))
    if issubclass(worker.adapter, AsyncLibrary):
        asyncio.run(_then_end(worker, replies))
    else:
        with_threads(worker, replies)
    _end(replies)


async def _then_end(worker: Worker, replies: IO[str]) -> None:
    await with_tasks(worker, replies)
    _end(replies)  # in the loop: leaving it would wait for tasks that wait for a lock


def _end(replies: IO[str]) -> None:
    replies.flush()
    # Threads and tasks that still wait must not keep the process: nobody wants their locks any more.
    os._exit(0)


if __name__ == "__main__":
    main()
