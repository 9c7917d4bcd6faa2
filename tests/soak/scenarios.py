"""Breaches that chance brings up too rarely, played as scripts: healing with its limit, and tokens.

The interleaving of healing is that of docs/guarantees.md and of the model (docs/model.md): H holds masters 1
and 2. C asks: 3 grants, 2 refuses, the request to 1 is on its way. 3 loses its memory. H finds its key
missing on 3 and puts it back. H's key on 1 runs out, because H cannot reach 1; the request of C arrives
there and is granted. Now C counts 1, and 3, which has forgotten; H counts 2, and 3. Two rules keep one of
them out: H counts a healed key only while an acquisition that is under way must end before H's lease does;
and an acquisition must end within that time.

The network is two proxies in front of master 1, one for each.

Tokens: three owners one after another, each with another two of the three masters. A master that is stopped
would carry out later what it missed, and count it. So the third master is behind a proxy that drops
everything, and each owner is a client of its own. Everything else is rlock on real masters, in a
process of its own: ``python -m tests.soak.scenarios NAME FOLDER TTL SABOTAGE``.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rlock
from rlock.rules.options import ClientOptions
from rlock.testing.contention.checker import judge_safety
from rlock.testing.contention.history import History
from rlock.testing.contention.journal import Journal
from rlock.testing.contention.recorder import Hold, Recorder
from rlock.testing.local.spawn import spawn

from ..faults.proxy import Proxy
from .crew import ROOT
from .fleet import Fleet
from .worker import commit

if TYPE_CHECKING:
    from .plan import Plan, Result


@dataclass(frozen=True)
class Script:
    """How long before the end of H's lease C asks, and how long each waits for one master."""

    before_s: float
    request_timeout: float


SCRIPTS = {
    # So late that what is healed must not count any more; C's acquisition is a quick one.
    "naive healing": Script(before_s=0.75, request_timeout=0.9),
    # So early that what is healed may count; C's acquisition takes longer than any may.
    "no limit": Script(before_s=2.2, request_timeout=2.5),
}


def naive_healing(plan: Plan) -> Result:
    """A healed key that counts at once, close to the end of the lease."""
    return _play("naive healing", plan)


def no_limit(plan: Plan) -> Result:
    """An acquisition that takes as long as its lease."""
    return _play("no limit", plan)


def one_token_twice(plan: Plan) -> Result:
    """Tokens that each master counts by itself."""
    return _play("one token twice", plan)


def _play(name: str, plan: Plan) -> Result:
    """Repeat the script for as long as the plan says, or until it is red."""
    from .plan import Result, figures

    result = Result(plan)
    with tempfile.TemporaryDirectory(prefix="rlock-soak-") as made:
        folder, history = Path(made), History()
        log = os.open(folder / "scenario.log", os.O_WRONLY | os.O_CREAT, 0o644)
        command = [sys.executable, "-m", "tests.soak.scenarios", name, made, str(plan.ttl), plan.sabotage]
        process = spawn(command, log, ROOT)
        os.close(log)
        began = time.monotonic()
        try:
            while (spent := time.monotonic() - began) < plan.seconds and process.poll() is None:
                time.sleep(0.3)
                result.findings = judge_safety(history.take(folder))
                if result.red and result.red_after_s is None:
                    result.red_after_s = spent
                if result.red and plan.until_red:
                    break
        finally:
            failed = process.poll()
            process.kill()
            process.wait()
        if failed is not None:
            raise RuntimeError(f"the script broke off:\n{(folder / 'scenario.log').read_text()[-3000:]}")
        result.figures = figures(history, plan.ttl)
        healed = (folder / "scenario.log").read_text().count("put back")
        result.faults = {"scripts played": len({h.lock for h in history.holds}), "keys healed": healed}
    return result


# -- in the process of the script ----------------------------------------------------------------------


class Actor:
    """A client with a proxy of its own in front of master 1, and a journal."""

    def __init__(self, role: str, folder: Path, fleet: Fleet, script: Script) -> None:
        self.proxy = Proxy(fleet.urls[0])
        longest = ClientOptions(fleet.ttl, fleet.ttl).lease(None).longest  # a rule that may be broken
        self.client = rlock.Client(
            [self.proxy.url, *fleet.urls[1:]],
            ttl=fleet.ttl,
            max_ttl=fleet.ttl,
            request_timeout=min(script.request_timeout, longest),
        )
        self._recorder = Recorder(Journal(folder, role), fleet.ttl)

    def attempt(self, name: str, wanted: Callable[[rlock.RLock], bool]) -> None:
        """One round for the lock; then looks at it as long as it is wanted."""

        def work(hold: Hold) -> None:
            while wanted(hold.lock):
                time.sleep(0.01)
                hold.look()

        self._recorder.attempt(self.client.lock(name), work, timeout=0.0)

    def close(self) -> None:
        """Client first."""
        self.client.close()
        self.proxy.close()


def _take_turns(folder: Path, fleet: Fleet, number: int) -> None:
    for absent in range(len(fleet)):
        fleet.proxies[absent].cut()
        options = {"ttl": fleet.ttl, "max_ttl": fleet.ttl}
        with rlock.Client(fleet.proxied, **options) as client:  # type: ignore[arg-type]
            recorder = Recorder(Journal(folder, f"{number}-without-{absent}"), fleet.ttl)
            recorder.attempt(client.lock(f"lock-{number}"), lambda hold: hold.look(), timeout=0.0)
        fleet.proxies[absent].mend()


def _heal(script: Script, folder: Path, fleet: Fleet, number: int) -> None:
    lock_name = f"lock-{number}"
    with contextlib.ExitStack() as stack:
        holder = Actor(f"holder-{number}", folder, fleet, script)
        stack.callback(holder.close)
        contender = Actor(f"contender-{number}", folder, fleet, script)
        stack.callback(contender.close)
        for actor in (holder, contender):
            actor.client.status(lock_name)  # connected beforehand
        over, until = threading.Event(), [0.0]

        def looking(lock: rlock.RLock) -> bool:
            until[0] = time.monotonic() + lock.remaining()
            return not over.is_set()

        # Somebody has 3, and may be dead: so H gets 1 and 2 only, and does not fill up.
        third = stack.enter_context(contextlib.closing(fleet.raw(2)))
        third.hset(lock_name, f"somebody:{0:032x}", 1)
        third.pexpire(lock_name, int(fleet.ttl * 1000))
        holding = threading.Thread(target=holder.attempt, args=(lock_name, looking))
        holding.start()
        stack.callback(holding.join)
        stack.callback(over.set)
        time.sleep(0.6)  # the first renewal is over
        holder.proxy.cut()
        end = until[0]  # of H's lease, and nearly that of its key on 1
        time.sleep(end - script.before_s - time.monotonic())
        third.delete(lock_name)
        contender.proxy.hold()
        asking = threading.Thread(target=contender.attempt, args=(lock_name, _for(1.0)))
        asking.start()
        stack.callback(asking.join)
        time.sleep(0.05)
        logging.info("%s: on 3: %s", lock_name, third.hgetall(lock_name))
        if number % 2:
            fleet.command(2, "FLUSHALL")
        else:
            fleet.kill(2)
            fleet.start(2)
        time.sleep(max(0.0, end + 0.012 * fleet.ttl + 0.03 - time.monotonic()))
        contender.proxy.let_go()
        asking.join()
    for i in range(len(fleet)):
        fleet.command(i, "DEL", lock_name)
    fleet.vouch()  # nothing is locked


def _for(seconds: float) -> Callable[[rlock.RLock], bool]:
    until: list[float] = []

    def hold(_: rlock.RLock) -> bool:
        if not until:
            until.append(time.monotonic() + seconds)
        return time.monotonic() < until[0]

    return hold


def main() -> None:
    """Play the script until somebody ends this process."""
    name, folder, ttl, sabotage = sys.argv[1:]
    logging.basicConfig(format="%(created).6f %(threadName)s %(message)s", level=logging.INFO)
    commit(sabotage)
    with Fleet(3, float(ttl), Path(folder)) as fleet:
        for number in itertools.count(1):
            if name in SCRIPTS:
                _heal(SCRIPTS[name], Path(folder), fleet, number)
            else:
                _take_turns(Path(folder), fleet, number)


if __name__ == "__main__":
    main()
