"""Contestants that take turns, also where some of them fail."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

import pytest

from bench.harness.contestants import Contestant
from bench.harness.turns import Clock, Runners
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


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("cannot start", "Failed: pip failed: no such package"),
        ("ends", "Failed: it has ended: it had enough"),
        ("hangs", "Failed: no answer within 0.5 s"),
        ("prints", "Failed: no reply of the protocol: warming up"),
        ("raises", "LockError: no such lock"),
        ("sometimes", "LockError: not this time"),
    ],
)
def test_a_contestant_that_fails_has_its_error_and_the_others_go_on(how: str, error: str) -> None:
    with Runners([(broken(how), []), (broken("well"), [])]) as both:
        bad, well = both.runners
        for runner in both.turns(random.Random(1), Clock(1.0)):
            runner.batch("pairs", "x", 0.5)
    row = bad.row()
    assert row.error is not None
    assert row.error.startswith(error)
    assert "\n" not in row.error
    assert well.error is None
    assert well.row().error is None
    assert len(well.rounds) > 10
    if how == "sometimes":
        assert row.figures["failed"] == bad.failed > 10
        assert bad.rounds, "what it did well counts"
    else:
        assert not bad.rounds
