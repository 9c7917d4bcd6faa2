"""The referee: sees all clients at once, and says what was promised and not kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlock.model import LeaseState
from rlock.rules.holds import Hold
from rlock.rules.keys import is_shared
from rlock.rules.timing import CLAIM_S

if TYPE_CHECKING:
    from .client import Client
    from .world import World


@dataclass(frozen=True)
class Moment:
    """A lease begins, or is given up."""

    at: float
    name: str
    owner: str


@dataclass(frozen=True)
class Violation:
    """What was promised and not kept; ``first`` and ``second`` are owners."""

    at: float
    name: str
    first: str
    second: str
    what: str = "two valid leases"

    def __str__(self) -> str:
        return f"{self.at:.6f} s, lock {self.name}: {self.what}: {self.first[:40]} {self.second[:40]}"


def valid_for(client: Client, hold: Hold) -> float:
    # Not `remaining`: it reads what has arrived, which a process that is stopped cannot do.
    lease = hold.lease
    return lease.valid_until - client.clock() if lease.state in (LeaseState.HELD, LeaseState.SUSPECT) else 0.0


def _valid(client: Client, hold: Hold) -> bool:
    return valid_for(client, hold) > 0.0


class Referee:
    """A lease counts from the return of acquire until release is called.

    In between it ends by itself when its validity does, on its holder's own clock. A lease is prolonged only
    while it is valid, so two overlap if, and only if, the earlier one is valid when the later begins. A lease
    that waits for its confirmation may turn out to be valid afterwards: then it was valid all the time.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._valid: dict[str, list[tuple[Client, Hold]]] = {}
        #: Leases that seemed to be over when another one began, and when that was by their clocks.
        self._doubtful: list[tuple[Hold, float, str]] = []
        #: By lock: when a client entered that had not heard of the longest lease.
        self._unaware: dict[str, float] = {}
        self._tokens: dict[str, tuple[int, str]] = {}
        #: Owners whom an operator has thrown out: they learn of it with their next renewal, some of them
        #: before they have heard of their grant.
        self.evicted: set[str] = set()
        self._told: set[str] = set()  # owners that were told that they have the lock no more
        #: The owners whose locks stay taken after their release, the lock, and until when; and by lock the
        #: last owner for whom a quorum confirmed it.
        self.kept: dict[str, tuple[str, float]] = {}
        self._kept: dict[str, tuple[str, float]] = {}
        self._adopted: set[str] = set()
        #: By the owner token of a writer: that of the reader that its owner is as well.
        self.reads: dict[str, str] = {}
        self.violations: list[Violation] = []
        self.entered: list[Moment] = []
        self.left: list[Moment] = []

    def enter(self, client: Client, hold: Hold, handle: str = "") -> None:
        """``handle``: it adopts this one."""
        now = self._world.events.now
        others = self._valid.setdefault(hold.name, [])
        self._doubtful += [
            (other, who.clock(), hold.owner)
            for who, other in others
            if other.lease.confirmation is not None and not _valid(who, other) and not who.holds.closed
            if not (hold.options.shared and other.options.shared)
        ]
        others[:] = [(who, other) for who, other in others if _valid(who, other)]
        lease = hold.lease
        sent_at = lease.valid_until - (lease.ttl if lease.confirmation is None else min(CLAIM_S, lease.ttl))
        if now - client.clock() + sent_at < self._unaware.get(hold.name, -1.0):
            self.evicted.add(hold.owner)  # granted before the unaware client entered
        evicted = hold.owner in self.evicted
        if 1000 * client.context.guard.max_ttl < self._world.max_ttl_ms:
            # It has a shorter max_ttl, and has not heard of the longest lease: docs/model.md.
            self.evicted.update(other.owner for _, other in others)
            self._unaware[hold.name] = now
        for _, other in others:
            if (hold.options.shared and other.options.shared) or other is hold.writer:
                continue
            if not evicted and other.owner not in self.evicted:
                self.accuse(hold.name, other.owner, hold.owner, "two valid leases")
        others.append((client, hold))
        last, until = self._kept.get(hold.name, ("", 0.0))
        if now < until and not evicted and last not in self.evicted:
            self.accuse(hold.name, last, hold.owner, "entered while it was kept after a release")
        token, owner = self._tokens.get(hold.name, (0, ""))
        # After a loss of memory tokens rest on clocks that differ by little, by less after an `init` behind
        # it: docs/fencing.md. A reader's is the last one that was not lost; a failover may lose one.
        lost = any(host.lost_at > 0.0 for host in self._world.hosts)
        if hold.options.shared:
            lost |= bool(self._world.groups)
        else:
            lost &= self._world.skew > 1.0 or any(host.vouched_at > 0.0 for host in self._world.hosts)
        written, _ = self._tokens.get(f"writer of {hold.name}", (0, ""))
        if handle:
            if handle in self._adopted:
                self.accuse(hold.name, owner, hold.owner, "adopted a second time")
            stale = False
            if hold.token < token and not evicted and not lost:
                self.accuse(hold.name, owner, hold.owner, "adopted when another one had had it since")
            self._adopted.add(handle)
        elif hold.options.shared:
            stale = hold.token < written  # a reader has the token of the last writer, or a higher one
        else:
            stale = hold.token <= token
            self._tokens[f"writer of {hold.name}"] = (max(written, hold.token), hold.owner)
        if stale and not evicted and not lost:
            self.accuse(hold.name, owner, hold.owner, f"fencing token {hold.token} after {token}")
        self._tokens[hold.name] = (max(token, hold.token), hold.owner)
        self.entered.append(Moment(now, hold.name, hold.owner))
        self._world.tell(f"{client.label} enters, token {hold.token}", hold.owner)
        self._world.happens("enter", client, None, hold.owner)
        if hold.lease.confirmation is not None and hold.writer is None:
            self._world.happens("claim", client, None, hold.owner)

    def reads_on(self, reader: Hold, writer: Hold) -> None:
        """An owner has the writer and the reader. It enters as a reader when it leaves as a writer."""
        self.reads[writer.owner] = reader.owner
        if writer.owner in self.evicted:
            self.evicted.add(reader.owner)

    def held(self, name: str) -> set[str]:
        valid = self._valid.get(name, [])
        return {hold.owner for who, hold in valid if _valid(who, hold)}

    def free(self, client: Client, name: str, before: set[str], took: float) -> None:
        """A client was told that nobody holds it: then nobody did so from before it asked until now.

        Except with a lease that is shorter than its question, or longer than all that it has heard of.
        """
        longest = client.context.guard.max_ttl
        for _, hold in self._valid.get(name, []):
            owner, ttl = hold.owner, hold.lease.ttl
            if owner in before & self.held(name) - self.evicted and took < ttl <= longest:
                self.accuse(name, owner, "", "called free while it was held")

    def finish(self) -> None:
        """No lease that seemed to be over has turned out to be valid while another one was."""
        for hold, since, owner in self._doubtful:
            if hold.lease.valid_until > since and hold.owner not in self.evicted:
                self.accuse(hold.name, hold.owner, owner, "valid after all, beside a later one")

    def leave(self, hold: Hold) -> None:
        others = self._valid.get(hold.name, [])
        others[:] = [(who, other) for who, other in others if other is not hold]
        self.left.append(Moment(self._world.events.now, hold.name, hold.owner))
        self._world.tell("leaves", hold.owner)
        self._world.happens("leave", self._world.clients[int(hold.owner[1:4])], None, hold.owner)

    def confirm(self, hold: Hold) -> None:
        """A release was confirmed by a quorum: a quorum cannot have it any more.

        Except on another server of a group, to which its acquire went first, and which is the primary now.
        """
        owner, hosts = hold.owner, self._world.hosts
        have = [host for host in hosts if owner in host.left(hold.name) and owner not in host.restored]
        having = sum(owner in host.told_to_release or not self._world.groups for host in have)
        if having > len(hosts) // 2:
            self.accuse(hold.name, hold.owner, "", f"still on {having} masters after its release")

    def keep(self, hold: Hold, until: float) -> None:
        self._kept[hold.name] = (hold.owner, until)

    def rivals(self, hold: Hold) -> list[str]:
        """Owners that got the lock behind this one, which was not evicted."""
        entered = [moment.owner for moment in self.entered if moment.name == hold.name]
        beside = {owner for owner in entered if hold.options.shared and is_shared(owner)} - {hold.owner}
        names = [owner for owner in entered if owner not in beside]
        if hold.owner in self.evicted or hold.owner not in names:
            return []
        return [owner for owner in names[names.index(hold.owner) + 1 :] if owner not in self.evicted]

    def believes(self, client: Client, hold: Hold) -> None:
        """A user asks whether it still has the lock. Then nobody else had it since, and "no" is final."""
        if hold not in client.holds:
            return
        if client.holds.remaining(hold) <= 0.0:
            self._told.add(hold.owner)
        elif hold.owner in self._told:
            self.accuse(hold.name, hold.owner, "", "has again what it was told to have lost")
        else:
            what = "believes in its lease, which another one had since"
            for owner in self.rivals(hold)[:1]:
                self.accuse(hold.name, hold.owner, owner, what)

    def evict(self, owner: str) -> None:
        self.evicted |= {owner, self.reads.get(owner, owner)}

    def accuse(self, name: str, first: str, second: str, what: str) -> None:
        violation = Violation(self._world.events.now, name, first, second, what)
        self.violations.append(violation)
        self._world.tell(f"VIOLATION {violation}")
