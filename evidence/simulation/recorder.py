"""The recorder: sees what masters and clients do, and writes one trace for each lock. It changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
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

from .traces import NO_NOTE, UNREAD, Trace, leases, taken_apart

if TYPE_CHECKING:
    from .client import Client
    from .hosts import Host


class Run(NamedTuple):
    """A command of a client that a master is about to run. ``holders``: the owner tokens there, by lock."""

    host: Host
    client: Client
    call: PendingCall | None
    command: Command
    holders: dict[str, str]
    keys: list[str]
    words: list[str]

    @property
    def master(self) -> int:
        return self.host.index + 1


class Recorder:
    """All traces of one world. ``longest``: the age in ms up to which notes are compared."""

    def __init__(self, hosts: Sequence[Host], names: Sequence[str], lease: int) -> None:
        self._longest = lease + 1
        self.traces = {name: Trace(name, lease, hosts[0].ticks) for name in names}
        for host in hosts:
            if host.master.look(NOTE) is not None:
                self.shook_hands(host)

    def _tell_all(self, what: str, host: Host, number: int = 0) -> None:
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
        self._tell_all("first" if first_use else "handshake", host, age)

    def flushed(self, host: Host) -> None:
        self._tell_all("flush", host)

    def restarts(self, host: Host, kept: dict[str, Entry], *, whole: bool) -> None:
        """A master begins anew, with its whole memory or with that of a snapshot."""
        if whole or not kept:
            self._tell_all("whole" if whole else "empty", host)
            return
        for trace in self.traces.values():
            entry, holder, left = kept.get(trace.name), "", 0
            if entry is not None and entry.expires_ms is not None:
                left = entry.expires_ms - host.time_us() // 1000 + 1
                holder = next(iter(entry.fields)) if left > 0 else ""
            trace.restored(host.index + 1, holder, left)

    def runs(self, host: Host, client: Client, call: PendingCall | None, command: Command) -> Run:
        holders = {name: _holder(host, name) for name in self.traces}
        return Run(host, client, call, command, holders, *taken_apart(command))

    def ran(self, run: Run, reply: Any) -> None:
        script, keys, words, master = run.command.script, run.keys, run.words, run.master
        if script is scripts.HANDSHAKE:
            self.shook_hands(run.host, first_use=words[1] == "unused")
        elif script is scripts.RELEASE:
            self._released(run, self.traces[keys[0]])
        elif script is scripts.ACQUIRE:
            trace = self.traces[keys[0]]
            if reply[0] == Code.YES:
                if run.holders[trace.name] not in ("", words[-2]):
                    trace.freed(master)  # it was handed to the place of this waiter
                age = self._age(run.host, reply[7].decode())
                trace.granted(run.client, words[-2], run.call, master, int(words[0]), age)
            elif reply[0] == Code.FOREIGN:
                trace.refused(master, run.holders[trace.name])
        elif script in (scripts.RENEW, scripts.HEAL):
            age = self._age(run.host, reply[2].decode())
            for (name, token), code in zip(leases(run.command), reply[1], strict=True):
                if code in (Code.YES, Code.HEALED):
                    healed = code == Code.HEALED
                    self.traces[name].prolonged(token, run.call, master, age, healed=healed)
                elif code == Code.FOREIGN and run.holders[name]:
                    self.traces[name].refused(master, run.holders[name])

    def _released(self, run: Run, trace: Trace) -> None:
        before, after = run.holders[trace.name], _holder(run.host, trace.name)
        if before == after:
            return
        if _evicts(run.command):
            trace.gives_up(before)
        if before:
            trace.add("freed", run.master)
        if len(run.words) > 6 and after == run.words[6]:
            trace.granted(run.client, after, run.call, run.master, int(run.words[7]), UNREAD)
        elif after:
            trace.remains(run.master)

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

    @contextmanager
    def watching(self) -> Iterator[None]:
        """See the decisions of acquires: attempts, and hand-overs inside a client."""
        with ExitStack() as stack:
            # Lock.tla has no grant by messages, so waiters ask the masters, as with renew=False.
            stack.enter_context(patch.object(acquire, "claim", _asks))
            for module, name in ((acquire, "attempt"), (attempt, "attempt"), (acquire, "_accept")):
                stack.enter_context(patch.object(module, name, self._watched(getattr(module, name))))
            yield

    def _watched(self, genuine: Callable[..., WaitGenerator[Grant | None]]) -> Callable[..., Any]:
        def decided(port: Any, contender: Contender, *args: Any, **how: Any) -> WaitGenerator[Grant | None]:
            grant = yield from genuine(port, contender, *args, **how)
            if grant is not None:
                until = valid_until(grant.sent_at, contender.options.lease.ttl)
                self.traces[contender.name].wins(grant.owner, until)
            return grant

        return decided


def _asks(_port: Any, _contender: Contender) -> None:
    """No grant by messages."""


def _holder(host: Host, name: str) -> str:
    return next(iter(host.left(name)), "")


def _evicts(command: Command) -> bool:
    """Whether a release comes from an operator: it has one more key, for the ban."""
    return command.by_sha()[2] == "5"
