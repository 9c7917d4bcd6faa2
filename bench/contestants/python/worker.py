"""The worker of a Python contestant: reads requests, runs them with one adapter, writes replies.

    python bench/contestants/python/worker.py ADAPTER

ADAPTER is ``MODULE:CLASS``, such as ``adapters.redis_py:RedisPy``; the class is called with ``masters``,
``ttl_ms`` and ``poll_ms`` and is a `Library`: see ``library.py``. This runs in the contestant's own
environment, so it imports nothing but the standard library and that module (``bench/README.md``).
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

# `adapters` is beside this file, `floors` is beside its folder.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from library import Unsupported, usage  # noqa: E402
from threads import Threads  # noqa: E402


def main() -> None:
    # What libraries print is not ours to answer with.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    module, _, kind = sys.argv[1].partition(":")
    adapter = getattr(importlib.import_module(module), kind)
    performer: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        verb = request.pop("do")
        if verb == "quit":
            break
        reply: dict[str, Any]
        try:
            if verb == "open":
                library = adapter(**request)
                performer = Threads(library)
                runtime = f"{platform.python_implementation()} {platform.python_version()}"
                reply = {"name": library.name, "version": library.version, "runtime": runtime}
            elif verb == "usage":
                reply = usage()
            elif library.verbs is not None and verb not in library.verbs:
                raise Unsupported(f"it answers {' and '.join(sorted(library.verbs))} only")
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
