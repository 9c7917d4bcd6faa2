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
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

# `adapters` is beside this file, `floors` is beside its folder.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from library import AsyncLibrary, Unsupported  # noqa: E402
from tasks import Tasks  # noqa: E402
from threads import Threads, told  # noqa: E402

#: The longest request, with many masters, is far shorter.
LONGEST_LINE = 1 << 20


class Worker:
    def __init__(self, adapter: type[Any]) -> None:
        self.adapter = adapter
        self.performer: Threads | Tasks | None = None
        # What libraries print is not ours to answer with.
        self.replies = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)

    def perform(self, do: str, **request: Any) -> Any:
        """The reply, or a coroutine that returns it if the library is for an event loop."""
        if do == "open":
            library = self.adapter(**request)
            self.performer = Tasks(library) if isinstance(library, AsyncLibrary) else Threads(library)
            runtime = f"{platform.python_implementation()} {platform.python_version()}"
            opened = {"version": library.version, "runtime": runtime}
            return self.start(library, opened) if isinstance(library, AsyncLibrary) else opened
        if self.performer is None:
            raise RuntimeError("it was not opened")
        if do not in ("loop", "acquire", "release", "hold", "drop") or not hasattr(self.performer, do):
            raise Unsupported(f"there is no request {do}")
        return getattr(self.performer, do)(**request)

    async def start(self, library: AsyncLibrary, opened: dict[str, Any]) -> dict[str, Any]:
        await library.start()
        return opened

    def reply(self, reply: dict[str, Any] | Exception) -> None:
        if isinstance(reply, Unsupported):
            reply = {"ok": False, "unsupported": str(reply)}
        elif isinstance(reply, Exception):
            traceback.print_exception(type(reply), reply, reply.__traceback__)
            reply = {"ok": False, "error": told(reply)}
        self.replies.write(json.dumps({"ok": True, **reply}) + "\n")

    def with_threads(self) -> None:
        for line in sys.stdin:
            try:
                self.reply(self.perform(**json.loads(line)))
            except Exception as error:
                self.reply(error)

    async def with_tasks(self) -> None:
        # The loop reads the requests itself, so that renewals go on between them. All are performed by this
        # one task: who asked to acquire is who asks to release.
        requests = asyncio.StreamReader(LONGEST_LINE)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(requests), sys.stdin.buffer
        )
        while line := await requests.readline():
            try:
                performed: Coroutine[Any, Any, Any] = self.perform(**json.loads(line))
                self.reply(await performed)
            except Exception as error:
                self.reply(error)
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
