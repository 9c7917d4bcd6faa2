"""The floor of a wake-up: one process pushes, another one's BLPOP returns. No lock: it excludes nobody.

    python -m bench.harness.handover

A worker as ``bench/README.md`` describes one, that answers open, acquire, release and quit only. It uses the
first master alone.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from typing import Any

import redis


def main() -> None:
    master = redis.Redis()
    for line in sys.stdin:
        request = json.loads(line)
        verb = request.pop("do")
        reply: dict[str, Any] = {"ok": True}
        if verb == "open":
            master = redis.Redis.from_url(request["masters"][0])
            master.ping()
            runtime = f"{platform.python_implementation()} {platform.python_version()}"
            reply |= {"name": "BLPOP", "version": redis.__version__, "runtime": runtime}
        elif verb == "acquire":
            asked = time.monotonic_ns()
            popped = master.blpop([request["lock"]], request["wait_ms"] / 1000)
            reply |= {"acquired": popped is not None, "asked": asked, "entered": time.monotonic_ns()}
        elif verb == "release":
            began = time.monotonic_ns()
            master.rpush(request["lock"], 1)
            reply |= {"began": began, "ended": time.monotonic_ns()}
        elif verb == "quit":
            return
        else:
            reply = {"ok": False, "unsupported": "it hands over, and does nothing else"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
