"""Contestants that fail in one way each: a worker of the protocol, as a program."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from bench.harness.contestants import Contestant
from bench.harness.worker import Failed, Worker

WORKER = """
import json, sys, time
how = sys.argv[1]
for line in sys.stdin:
    request = json.loads(line)
    do, count = request["do"], request.get("count", 0)
    reply = {"ok": True, "version": "1", "runtime": "none", "ns": [1000] * count, "errors": []}
    if do == "pairs":
        if how == "ends":
            sys.exit("it had enough")
        if how == "hangs":
            time.sleep(600)
        if how == "prints":
            print("warming up", flush=True)
        if how == "raises":
            reply = {"ok": False, "error": "LockError: no such lock"}
        if how == "sometimes" and count > 1:
            reply["ns"], reply["errors"] = [1000] * (count - 1), ["LockError: not this time"]
    print(json.dumps(reply), flush=True)
"""


@dataclass(frozen=True)
class Broken(Contestant):
    """A contestant whose adapter says how it fails."""

    def start(self) -> Worker:
        if self.adapter == "cannot start":
            raise Failed("pip failed: no such package")
        return Worker([sys.executable, "-c", WORKER, self.adapter])


def broken(how: str) -> Broken:
    return Broken(f"broken-{how.replace(' ', '-')}", how, "peer", "Python", "many", "none", how)
