"""The worker of a Python contestant: reads requests, runs them with one adapter, writes replies.

    python bench/contestants/python/worker.py ADAPTER

It runs in the contestant's own environment, so it imports nothing but the standard library and
``adapters/ADAPTER.py``. That has ``open(masters, ttl_ms, poll_ms)``, which returns a `Library`: see
``library.py``. The protocol: ``bench/README.md``.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from library import Unsupported, usage
from threads import Threads


def main() -> None:
    # What libraries print is not ours to answer with.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    adapter = importlib.import_module(f"adapters.{sys.argv[1]}")
    performer: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        verb = request.pop("do")
        if verb == "quit":
            break
        reply: dict[str, Any]
        try:
            if verb == "open":
                library = adapter.open(**request)
                performer = Threads(library)
                runtime = f"{platform.python_implementation()} {platform.python_version()}"
                reply = {"name": library.name, "version": library.version, "runtime": runtime}
            elif verb == "usage":
                reply = usage()
            else:
                reply = getattr(performer, verb)(**request)
            reply = {"ok": True, **reply}
        except Unsupported as why:
            reply = {"ok": False, "unsupported": str(why)}
        except Exception as error:
            traceback.print_exc()
            reply = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
    replies.flush()
    # Threads that still wait must not keep the process: nobody wants their locks any more.
    os._exit(0)


if __name__ == "__main__":
    main()
