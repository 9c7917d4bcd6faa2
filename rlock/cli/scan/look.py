"""Scan: looks at a fleet, again and again, without disturbing it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from ..._client.connections import broken
from ...client import Client
from ...errors import OptionsError
from ...model import LASTING, LockStatus
from ...procedures.inspect import told
from ...procedures.port import Masters, Request, WaitGenerator
from ...rules import commands
from ...rules.quorum import Settle, quorum
from .masters import Answer, MasterReader
from .snapshot import MasterHealth, Snapshot

#: Names of locks that are remembered, times the limit of those that are shown.
MEMORY = 50
#: How long a lock that is free now stays in mind: contended ones are free for moments.
GRACE_S = 5.0
#: How long one stays in mind that was found once and not asked for since.
FORGET_S = 120.0
#: Time for a SCAN in the first look, which is to show as much as possible at once.
FIRST_SCAN_S = 0.25
#: How long to wait for all masters before those are asked for locks that have answered.
PATIENCE_S = FIRST_SCAN_S + 0.1

#: What is asked for where there are no locks.
NOBODYS = "rlock"
#: Locks in one pipeline: all replies must be read within the time-out.
BATCH = 100


def statuses(
    masters: Masters, names: Sequence[str], timeout: float, waiters: int = commands.STATUS_WAITERS
) -> WaitGenerator[list[LockStatus]]:
    """The status of many locks in order, each with its first ``waiters`` waiters.

    Masters that do not answer are faults in each status. With fewer answers than ``quorum`` a status has no
    holder, and its lock need not be free.
    """
    context, found = masters.context, list[LockStatus]()
    # Also without names: the call connects to the masters.
    for start in range(0, max(len(names), 1), BATCH):
        batch = names[start : start + BATCH]
        requests = [
            Request(commands.status(name, waiters, guarded=context.guard.on), timeout, Settle.ALL)
            for name in batch
        ]
        ballots = yield from masters.call_many(requests)
        found += [told(context, name, ballot) for name, ballot in zip(batch, ballots, strict=True)]
    return found


@dataclass
class _Name:
    """What is known of a name."""

    alive_at: float  # when it was found, or last seen held or waited for
    waited: bool = False


class Scan:
    """Looks at all locks that match a pattern, and at the masters. Reads only.

    :param client: whose masters are looked at; it stays the caller's, to be closed after this.
    :param pattern: names of locks, as KEYS and SCAN have patterns.
    :param limit: how many locks a look tells of. Those that are waited for come first.
    :param scan_s: seconds that a look may spend on each master searching for names; it goes on with the next
        look. The first look takes a little longer.
    :param waiters: how many of those who wait for a lock are told, the first.

    Names come from a SCAN of every master, never from KEYS: locks as hashes with an owner token as their only
    field, and queues. One thread may use it at a time; no matter which.
    """

    def __init__(
        self, client: Client, pattern: str = "*", limit: int = 200, *, scan_s: float = 0.01, waiters: int = 20
    ) -> None:
        try:
            pattern.encode()
        except UnicodeEncodeError:
            raise OptionsError(f"the pattern must be text that UTF-8 can carry: {pattern!r}") from None
        self._client = client
        self._limit = limit
        self._scan_s = scan_s
        self._waiters = waiters
        self._timeout = client._options.lease(None).request_timeout
        self._names: dict[str, _Name] = {}
        self._started_at = 0.0
        self._overflow = False
        self._readers = [
            MasterReader(endpoint, pattern, self._timeout, self._names) for endpoint in client._endpoints
        ]
        # A thread for each master: none waits for another.
        self._pool = ThreadPoolExecutor(len(self._readers), "rlock-scan")
        self._looks: list[Future[None] | None] = [None] * len(self._readers)

    def look(self) -> Snapshot:
        """The fleet as it is now. A master that gives no answer costs its time-out in one look only.

        Never fails for want of answers: the snapshot says what is wrong with each master.
        """
        at = time.time()
        self._learn(self._done())  # a look that came too late for the last snapshot
        looks = self._start_readers()
        self._wait(looks, PATIENCE_S)
        self._learn(self._done())
        self._follow_leaders()
        # Meanwhile a master that hangs uses up the readers' time, or each of the two would cost its time-out.
        locks = self._statuses(())
        self._wait(looks, self._timeout + self._scan_s)
        answers = self._answers()
        self._learn(answers)
        locks += self._statuses([lock.name for lock in locks])
        more = (
            self._overflow
            or len(self._names) > self._limit
            or not all(
                answer.passes or answer.fault is not None or answer.unlisted is not None for answer in answers
            )
        )
        # Those that were found last may be waited for, and go before.
        shown = sorted(filter(self._shown, locks), key=lambda lock: (not lock.queue_length, lock.name))
        shown = shown[: self._limit]
        return Snapshot(
            at,
            quorum(len(self._readers)),
            tuple(self._health(answers, locks)),
            tuple(sorted(shown, key=lambda lock: lock.name)),
            more,
        )

    def close(self) -> None:
        """End threads and connections; the client stays open."""
        for reader in self._readers:
            reader.close()
            self._pool.submit(reader.hang_up)
        self._pool.shutdown(wait=False)

    # -- one look ----------------------------------------------------------------------------------

    def _start_readers(self) -> list[Future[None]]:
        """Have each idle reader look; the looks worth waiting for."""
        scan_s = max(self._scan_s, FIRST_SCAN_S) if self._started_at == 0.0 else self._scan_s
        self._started_at = time.monotonic()
        expected = []
        for i, reader in enumerate(self._readers):
            if not self._busy(i):
                promising = reader.promising
                self._looks[i] = look = self._pool.submit(reader.look, scan_s)
                if promising:
                    expected.append(look)
        return expected

    def _busy(self, i: int) -> bool:
        look = self._looks[i]
        return look is not None and not look.done()

    def _wait(self, looks: Sequence[Future[None]], patience: float) -> None:
        """Until all looks are done, at most so many seconds since they were started."""
        wait(looks, max(0.0, self._started_at + patience - time.monotonic()))

    def _done(self) -> list[Answer]:
        return [reader.answer for i, reader in enumerate(self._readers) if not self._busy(i)]

    def _answers(self) -> list[Answer]:
        silent = Answer(f"no answer within {self._timeout:g} s")
        return [
            silent if self._busy(i) and reader.promising else reader.answer
            for i, reader in enumerate(self._readers)
        ]

    def _follow_leaders(self) -> None:
        """Leave servers that do not lead their groups any more: they tell of old holders."""
        masters = self._client._engine().masters
        with masters._mutex:
            for server, reader in zip(masters._connections.servers, self._readers, strict=True):
                leader, connection = reader.answer.leader, server.connection
                if leader and connection is not None and connection.memory_report.server != leader:
                    masters._connections.drop(server, broken("another server leads its group"))

    def _learn(self, answers: Sequence[Answer]) -> None:
        """Take note of names that were found, and forget those that are over."""
        now = time.monotonic()
        room = MEMORY * self._limit
        for answer in answers:
            for name in (*answer.waited, *answer.locks):
                known = self._names.get(name)
                if known is None:
                    if len(self._names) >= room:
                        self._overflow = True
                        continue
                    known = self._names[name] = _Name(now)
                known.alive_at = now
                known.waited = known.waited or name in answer.waited

    def _statuses(self, asked: Collection[str]) -> list[LockStatus]:
        """Ask for the locks that are known, but for those that this look has asked for already."""
        names = sorted(self._names, key=lambda name: (not self._names[name].waited, name))[: self._limit]
        names = [name for name in names if name not in asked]
        if asked and not names:
            return []
        engine = self._client._engine()
        # With no locks one that nobody has: without an answer to wait for, the client would not notice that a
        # connection has ended, nor that its master has restarted.
        found = engine.perform(statuses(engine.masters, names or [NOBODYS], self._timeout, self._waiters))
        found = found if names else []
        now = time.monotonic()
        for lock in found:
            name = self._names[lock.name]
            name.waited = lock.queue_length > 0
            unsure = sum(view.fault is None for view in lock.masters) < lock.quorum
            if self._shown(lock) or unsure:
                name.alive_at = now
            elif now - name.alive_at > GRACE_S:
                del self._names[lock.name]
        for unasked in [name for name, known in self._names.items() if now - known.alive_at > FORGET_S]:
            del self._names[unasked]
        return found

    def _shown(self, lock: LockStatus) -> bool:
        return lock.queue_length > 0 or any(view.holder is not None for view in lock.masters)

    def _health(self, answers: Sequence[Answer], locks: Sequence[LockStatus]) -> list[MasterHealth]:
        engine = self._client._engine()
        guard, now = engine.context.guard, engine.clock()
        clocks = [answer.clock for answer in answers if answer.clock is not None]
        median = statistics.median(clocks) if clocks else 0.0
        found = []
        for i, (answer, endpoint) in enumerate(zip(answers, self._client._endpoints, strict=True)):
            fault = answer.fault
            server = engine.masters._connections.servers[i]
            if fault is None and server.connection is None and server.fault.kind in LASTING:
                fault = server.fault.text  # it answers, and nobody can have a vote of it
            refused = [lock.masters[i].fault for lock in locks]
            if fault is None and refused and None not in refused:
                fault = f"{refused[0]} (to a question for a lock)"
            found.append(
                MasterHealth(
                    endpoint.label,
                    fault,
                    latency=answer.latency,
                    **answer.told,
                    guarded=guard.remaining(i, now),
                    clock_offset=None if answer.clock is None else answer.clock - median,
                    locks=sum(lock.masters[i].holder is not None for lock in locks)
                    if fault is None
                    else None,
                    unlisted=answer.unlisted,
                    hidden=answer.hidden,
                )
            )
        return found
