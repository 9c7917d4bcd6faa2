"""The recorder: sees what masters and clients do, and writes one trace for each lock. It changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from rlock._client.connection import PendingCall
from rlock.model import Code
from rlock.procedures import acquire, attempt
from rlock.procedures.contender import Contender, Grant
from rlock.procedures.port import WaitGenerator
from rlock.procedures.renew import RenewalOutcome
from rlock.rules import scripts
from rlock.rules.command_templates import Command
from rlock.rules.keys import NOTE
from rlock.rules.lease import LeaseEvent
from rlock.rules.restart_guard import Note
from rlock.rules.timing import valid_until
from rlock.testing.memory.keyspace import Entry

from .traces import NO_NOTE, Trace, leases, taken_apart

if TYPE_CHECKING:
    from .client import Client
    from .hosts import Host


class Recorder:
    """All traces of one world. ``longest``: the age in ms up to which notes are compared."""

    def __init__(self, hosts: Sequence[Host], names: Sequence[str], lease: int) -> None:
        self._longest = lease + 1
        self.traces = {name: Trace(name, lease, hosts[0].ticks) for name in names}
        for host in hosts:
            if host.master.look(NOTE) is not None:
                self.shook_hands(host)

    def tell_all(self, what: str, host: Host, number: int = 0) -> None:
        for trace in self.traces.values():
            trace.add(what, host.index + 1, 0, number)

    def _age(self, host: Host, text: str) -> int:
        """The age that a note tells, in ms."""
        note = Note.parse(text)
        if note is None:
            return NO_NOTE
        if not note.since_us:
            return self._longest
        return max(0, min(self._longest, (host.time_us() - note.since_us) // 1000))

    def shook_hands(self, host: Host, *, first_use: bool = False) -> None:
        age = self._age(host, host.master.text(NOTE))
        self.tell_all("first" if first_use else "handshake", host, age)

    def restarts(self, host: Host, kept: dict[str, Entry], *, whole: bool) -> None:
        """A master begins anew, with its whole memory or with that of a snapshot."""
        if whole or not kept:
            self.tell_all("whole" if whole else "empty", host)
            return
        for trace in self.traces.values():
            entry, holder, left = kept.get(trace.name), "", 0
            if entry is not None and entry.expires_ms is not None:
                left = entry.expires_ms - host.time_us() // 1000 + 1
                holder = next(iter(entry.fields)) if left > 0 else ""
            trace.restored(host.index + 1, holder, left)

    def runs(self, host: Host, client: Client, call: PendingCall | None, command: Command) -> Any:
        """Have a master run a command; its reply, and what it publishes."""
        before = {name: _holder(host, name) for name in self.traces}
        reply, messages = host.master.run(command)
        (keys, words), script, master = taken_apart(command), command.script, host.index + 1
        if script is scripts.HANDSHAKE:
            self.shook_hands(host, first_use=words[1] == "unused")
        elif script is scripts.RELEASE:
            trace, after = self.traces[keys[0]], _holder(host, keys[0])
            if before[keys[0]] != after:
                if _evicts(command):
                    trace.gives_up(before[keys[0]])
                if before[keys[0]]:
                    trace.add("freed", master)
                if after:
                    trace.remains(master)
        elif script is scripts.ACQUIRE:
            trace = self.traces[keys[0]]
            if reply[0] == Code.YES:
                if before[keys[0]] not in ("", words[-2]):
                    trace.freed(master)  # it was handed to the place of this waiter
                trace.granted(
                    client, words[-2], call, master, int(words[0]), self._age(host, reply[7].decode())
                )
            elif reply[0] == Code.FOREIGN:
                trace.refused(master, before[keys[0]])
        elif script in (scripts.RENEW, scripts.HEAL):
            age = self._age(host, reply[2].decode())
            for (name, token), code in zip(leases(command), reply[1], strict=True):
                if code in (Code.YES, Code.HEALED):
                    healed = code == Code.HEALED
                    self.traces[name].prolonged(token, call, master, age, healed=healed)
                elif code == Code.FOREIGN and before[name]:
                    self.traces[name].refused(master, before[name])
        return reply, messages

    def sends(self, call: PendingCall | None, command: Command) -> None:
        keys, words = taken_apart(command)
        if command.script is scripts.RELEASE and not _evicts(command):
            self.traces[keys[0]].gives_up(words[-1])
        elif command.script is scripts.ACQUIRE and call is not None:
            self.traces[keys[0]].asks(words[-2], call)
        elif command.script in (scripts.RENEW, scripts.HEAL) and call is not None:
            for name, token in leases(command):
                self.traces[name].renews(token, call, heals=command.script is scripts.HEAL)

    def renewed(self, outcomes: Sequence[RenewalOutcome]) -> None:
        """The outcomes of a renewal were applied to their leases."""
        for hold, event, _ in outcomes:
            if event is LeaseEvent.RENEWED:
                self.traces[hold.name].wins(hold.owner, hold.lease.valid_until)
            else:
                self.traces[hold.name].fails(hold.owner)

    def watch(self, stack: ExitStack) -> None:
        """See the decisions of acquires."""
        # Lock.tla has no grant by messages, so waiters ask the masters, as with renew=False.
        stack.enter_context(patch.object(acquire, "claim", lambda *_: None))
        for module, name in ((acquire, "attempt"), (attempt, "attempt")):
            stack.enter_context(patch.object(module, name, self._watched(getattr(module, name))))

    def _watched(self, genuine: Callable[..., WaitGenerator[Grant | None]]) -> Callable[..., Any]:
        def decided(port: Any, contender: Contender, *args: Any, **how: Any) -> WaitGenerator[Grant | None]:
            grant = yield from genuine(port, contender, *args, **how)
            if grant is not None:
                until = valid_until(grant.sent_at, contender.options.lease.ttl)
                self.traces[contender.name].wins(grant.owner, until)
            return grant

        return decided


def _holder(host: Host, name: str) -> str:
    return next(iter(host.left(name)), "")


def _evicts(command: Command) -> bool:
    """Whether a release comes from an operator: it has one more key, for the ban."""
    return command.by_sha()[2] == "5"
