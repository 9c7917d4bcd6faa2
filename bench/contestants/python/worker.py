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
from typing import Any

# `adapters` is beside this file, `floors` is beside its folder.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from library import AsyncLibrary, Unsupported  # noqa: E402
from loops import Loops, run, told  # noqa: E402

#: The longest request, with many masters, is far shorter.
LONGEST_LINE = 1 << 20
VERBS = ("loop", "acquire", "release", "hold", "drop")


class Worker:
    def __init__(self, adapter: type[Any]) -> None:
        self.adapter = adapter
        self.loops: Loops | None = None
        # Libraries may print, and stdout is for our answers.
        self.replies = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)

    async def perform(self, do: str, **request: Any) -> dict[str, Any]:
        if do == "open":
            library = self.adapter(**request)
            if isinstance(library, AsyncLibrary):
                await library.start()
            self.loops = Loops(library)
            runtime = f"{platform.python_implementation()} {platform.python_version()}"
            return {"version": library.version, "runtime": runtime}
        if self.loops is None:
            raise RuntimeError("it was not opened")
        if do not in VERBS:
            raise Unsupported(f"there is no request {do}")
        reply: dict[str, Any] = await getattr(self.loops, do)(**request)
        return reply

    async def answer(self, line: str | bytes) -> None:
        try:
            reply = {"ok": True, **await self.perform(**json.loads(line))}
        except Unsupported as why:
            reply = {"ok": False, "unsupported": str(why)}
        except Exception as error:
            traceback.print_exception(type(error), error, error.__traceback__)
            reply = {"ok": False, "error": told(error)}
        self.replies.write(json.dumps(reply) + "\n")

    def with_threads(self) -> None:
        for line in sys.stdin:
            run(self.answer(line))

    async def with_tasks(self) -> None:
        # The loop reads the requests itself, so that renewals go on between them. All are performed by this
        # one task: who asked to acquire is who asks to release.
        requests = asyncio.StreamReader(LONGEST_LINE)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(requests), sys.stdin.buffer
        )
        while line := await requests.readline():
            await self.answer(line)
        self.end()  # in the loop: leaving it would wait for tasks that wait for a lock

    def end(self) -> None:
        self.replies.flush()
        # Threads and tasks that still wait must not keep the process: nobody wants their locks any more.
        os._exit(0)


def main() -> None:
    module, _, name = sys.argv[1].partition(":")
    adapter = getattr(importlib.import_module(module), name)
    worker = Worker(adapter)
    if issubclass(adapter, AsyncLibrary):
        asyncio.run(worker.with_tasks())
    worker.with_threads()
    worker.end()


if __name__ == "__main__":
    main()
