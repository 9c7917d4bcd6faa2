"""Examine masters side by side: every fact of each of them, in bounded time and without changing anything.

But for one lock of our own on each master, which is given back; with its fencing token, which a lock would
leave for an hour.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..._client import handshake
from ..._sync.endpoints import Endpoint
from ...clock import now
from ...model import Code
from ...rules import commands, keys, replies
from ...rules.memory_epoch import MemoryReport
from ...rules.restart_guard import Guard
from ...rules.timing import lease_ms
from ..numbers import time_us
from .acl import (
    COMMANDS,
    OPTIONAL,
    Permissions,
    Scope,
    command_trials,
    denial,
    judge_keys,
    key_trials,
    optional_trials,
)
from .facts import ClockSample, Facts, Fleet, Trouble
from .session import Session, SessionError, trouble_of

#: Round trips of which latency and clock are taken.
SAMPLES = 7
#: So many time-outs a master may take that answers everything, but late.
_PATIENCE = 6

_CONFIG = (
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "save",
    "stop-writes-on-bgsave-error",
    "client-output-buffer-limit",
    "tcp-keepalive",
    "timeout",
)


class Examination:
    """One master. `look`, and later `look_again`; both in a thread of their own."""

    def __init__(self, endpoint: Endpoint, scope: Scope, fleet: Fleet) -> None:
        arguments = endpoint._arguments
        self._endpoint = endpoint
        self._scope = scope
        self._fleet = fleet
        #: Longer than a request may take: a master that is too slow can still be told from a dead one.
        self.patience = max(2 * fleet.request_timeout, 1.0)
        self._session: Session | None = None
        self._locked = False
        self._host = str(arguments.get("host", "localhost")) if "path" not in arguments else None
        self.facts = Facts(
            endpoint.label,
            database=int(arguments.get("db") or 0),
            tls=endpoint.label.startswith("rediss:"),
            local="path" in arguments,
            user=str(arguments.get("username") or "default"),
            with_user=bool(arguments.get("username")),
            with_password=bool(arguments.get("password") or arguments.get("credential_provider")),
        )

    def look(self) -> None:
        """Ask everything; whatever goes wrong is a fact, too."""
        facts = self.facts
        deadline = time.monotonic() + _PATIENCE * self.patience
        try:
            self._resolve()
            session = self._session = Session(self._endpoint, self.patience, deadline)
            self._meet(session)
        except (SessionError, OSError) as error:
            facts.trouble, facts.fault = trouble_of(error)
            return
        if facts.busy:
            return
        try:
            self._ask(session)
            self._listen(session, deadline)
            self._lock(session)
        except (SessionError, OSError) as error:
            facts.cut_short = str(error)

    def look_again(self) -> None:
        """The clock, for the second time."""
        session, facts = self._session, self.facts
        if session is None or facts.clock is None or facts.cut_short:
            return
        session.deadline = time.monotonic() + self.patience
        try:
            facts.clock_later = self._sample(session)[1]
        except (SessionError, OSError):
            return

    def finish(self) -> None:
        """Have the master forget the fencing token of our lock, and close the connection."""
        session = self._session
        if session is None:
            return
        try:
            if self._locked:
                session.deadline = time.monotonic() + self.patience
                session.one("DEL", keys.fence(self._scope.probe))
        except (SessionError, OSError):
            pass  # it forgets by itself, in an hour
        finally:
            session.close()

    # -- the questions -----------------------------------------------------------------------------

    def _resolve(self) -> None:
        if self._host is None:
            return
        told = socket.getaddrinfo(self._host, None, type=socket.SOCK_STREAM)
        self.facts.addresses = tuple(sorted({str(entry[4][0]) for entry in told}))
        self.facts.local = all(
            ipaddress.ip_address(a.partition("%")[0]).is_loopback for a in self.facts.addresses
        )

    def _meet(self, session: Session) -> None:
        facts = self.facts
        if peer := session.peer():
            facts.address, facts.port = peer
        facts.round_trips, facts.clock = self._sample(session)

    def _sample(self, session: Session) -> tuple[list[float], ClockSample | None]:
        """Round trips, and the clock by the shortest of them: it says most."""
        took: list[float] = []
        best: ClockSample | None = None
        until = time.monotonic() + self.patience / 2
        # One that hiccups once is not slow: no less than three.
        while len(took) < SAMPLES and (time.monotonic() < until or len(took) < 3):
            sent_at = now()
            reply = session.one("TIME")
            came_at = now()
            took.append(came_at - sent_at)
            told = time_us(reply)
            if told is not None:
                sample = ClockSample((sent_at + came_at) / 2, told / 1e6, (came_at - sent_at) / 2)
                best = sample if best is None or sample.error < best.error else best
            elif str(reply).startswith("BUSY"):
                self.facts.busy = str(reply)
                break
        return took, best

    def _ask(self, session: Session) -> None:
        facts, scope, guarded = self.facts, self._scope, not self._fleet.guard_off
        commands, optional = command_trials(scope), optional_trials()
        key_names = [key for key, _ in scope.keys(guarded=guarded)]
        per_key = [key_trials(key) for key in key_names]
        asked: list[Sequence[str]] = [("INFO",), *(("CONFIG", "GET", name) for name in _CONFIG)]
        asked += [*commands.values(), *optional.values()]
        asked += [trial for trials in per_key for trial in trials[:1]]
        answers = iter(session.ask(asked))
        info = next(answers)
        if isinstance(info, bytes):
            facts.info = replies.fields(info)
            if facts.text("loading") == "1":
                facts.loading = f"{facts.text('loading_eta_seconds') or '?'} s to go, by its own estimate"
        config = {name: next(answers) for name in _CONFIG}
        for name, told in config.items():
            value = replies.setting(told)
            if value is not None:
                facts.config[name] = value
        refused = {command: denial(next(answers)) for command in commands}
        lacking = {command: denial(next(answers)) for command in optional}
        lacking |= {"info": denial(info), "config|get": denial(config["appendfsync"])}
        first = [next(answers) for _ in key_names]
        judged, unsure = self._keys(session, first)
        facts.permissions = Permissions(
            commands=(*(c for c, why in refused.items() if why in ("command", "other")), *session.missing),
            unknown=tuple(c for c, why in (refused | lacking).items() if why == "unknown"),
            keys=tuple(judged),
            optional=tuple(c for c in OPTIONAL if lacking[c] not in (None, "unknown")),
            unsure_of_keys=unsure,
        )
        if facts.info is not None and "appendfsync" in facts.config:
            fsync, unsynced = config["appendfsync"], config["no-appendfsync-on-rewrite"]
            facts.durable = handshake.is_durable(info, info, fsync, unsynced)
        if guarded:
            self._shake_hands(session)

    def _keys(self, session: Session, first: Sequence[Any]) -> tuple[list[str], bool]:
        # The first way tells of every key, unless EVALSHA itself is not allowed: then all the others.
        guarded = not self._fleet.guard_off
        wanted = self._scope.keys(guarded=guarded)
        told: list[list[Any]] = [[reply] for reply in first]
        if any(denial(reply) in ("command", "unknown") for reply in first):
            told = [session.ask(key_trials(key)) for key, _ in wanted]
        return judge_keys(self._scope, told, guarded=guarded)

    def _shake_hands(self, session: Session) -> None:
        """As each connection of a client begins: the note that it writes is true, whoever comes first."""
        told = MemoryReport(self.facts.run_id or "", "durable" if self.facts.durable else "volatile")
        vote = replies.decode_handshake(session.run(commands.handshake(told.run_id, told.memory)))
        self.facts.memory_report = told._replace(note=vote.note or "", time_us=vote.time_us)

    def _listen(self, session: Session, deadline: float) -> None:
        """A second connection: what goes wrong with channels, and whether it leads to the same server."""
        facts = self.facts
        channels = self._scope.channels()
        other = Session(self._endpoint, self.patience, deadline)
        try:
            told, *heard = other.ask(
                [("INFO", "server"), *(("SUBSCRIBE", name) for pair in channels for name in pair)]
            )
            published = session.ask([("PUBLISH", own, "0") for _, own in channels])
            for _ in range(published.count(1)):
                # The messages come first, the answer behind them.
                message = other.receive()
                if not (isinstance(message, list) and message[:1] == [b"message"]):
                    facts.unheard = True
            left = other.one("UNSUBSCRIBE", channels[0][0])
        finally:
            other.close()
        if isinstance(told, bytes):
            facts.other_run_id = replies.fields(told).get("run_id")
        subscribed = [denial(reply) for reply in heard]
        refused = [denial(reply) for reply in published]
        answers = {
            command: next(filter(None, told), None)
            for command, told in (("publish", refused), ("subscribe", subscribed))
        }
        answers["unsubscribe"] = denial(left)
        facts.unheard = facts.unheard or (not any(subscribed) and 0 in published)
        known = facts.permissions
        barred = ["channel" in each for each in zip(subscribed[::2], subscribed[1::2], refused, strict=True)]
        unsure = all(answers[c] in ("command", "unknown") for c in ("publish", "subscribe"))
        lacking = [c for c in COMMANDS if c in known.commands or answers.get(c) in ("command", "other")]
        facts.permissions = Permissions(
            commands=(*lacking, *(c for c in known.commands if c not in COMMANDS)),
            keys=known.keys,
            channels=self._scope.channel_rules if unsure else self._scope.rules_of(barred),
            optional=known.optional,
            unknown=(*known.unknown, *(c for c, why in answers.items() if why == "unknown")),
            unsure_of_keys=known.unsure_of_keys,
            unsure_of_channels=unsure,
        )

    def _lock(self, session: Session) -> None:
        """Scripts, and a lock of our own on this master alone: what a write is answered, and how fast."""
        facts, name = self.facts, self._scope.probe
        if not facts.permissions.enough or facts.mode not in (None, "standalone"):
            return
        for _ in range(3):
            began = now()
            reply = session.run(commands.status(name, guarded=not self._fleet.guard_off))
            facts.script_round_trips.append(now() - began)
            if isinstance(reply, Exception):
                kind = denial(reply)
                if not self._scope.prefix and kind == "key":
                    facts.not_tried = True  # it may lock the one name that was given, and no other
                    return
                facts.write_fault = str(reply)
                return
        # The first time may have carried the source.
        facts.script_round_trips = facts.script_round_trips[1:]
        self._locked = True
        owner = keys.owner_token(keys.client_label("rlock-doctor"))
        lease = lease_ms(self._fleet.ttl)
        taken = session.run(commands.acquire(name, owner, lease, guarded=False))
        if replies.decode_one(taken).code != Code.YES:
            facts.write_fault = str(taken)
        # In any case: an error does not say that nothing was written.
        session.run(commands.undo(keys.OWN, name, owner, hand_on=False))


def side_by_side(calls: Sequence[Callable[[], None]], within: float) -> list[bool]:
    """Run them, each in a thread; which were done in time. A look-up of a name cannot be ended."""
    threads = [threading.Thread(target=call, name="rlock-doctor", daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    until = time.monotonic() + within
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return [not thread.is_alive() for thread in threads]


def examine(
    endpoints: Sequence[Endpoint],
    fleet: Fleet,
    scope: Scope,
    between: Callable[[Fleet], None],
    measure_s: float,
) -> None:
    """Examine all masters into ``fleet``. ``between``: what to do while the clocks run on."""
    found = [Examination(endpoint, scope, fleet) for endpoint in endpoints]
    fleet.masters = [each.facts for each in found]
    try:
        within = max(each.patience for each in found) * (_PATIENCE + 2)
        done = side_by_side([each.look for each in found], within)
        for i, (each, ended) in enumerate(zip(found, done, strict=True)):
            if not ended:
                # Its thread may still write into the facts that it has.
                late = Facts(each.facts.master, trouble=Trouble.DNS, fault=f"no answer within {within:.1f} s")
                fleet.masters = [*fleet.masters[:i], late, *fleet.masters[i + 1 :]]
        _guard(fleet)
        between(fleet)
        first = [facts.clock.local_at for facts in fleet.masters if facts.clock]
        if measure_s > 0 and first:
            time.sleep(max(0.0, max(first) + measure_s - now()))
            side_by_side([each.look_again for each in found], 2 * max(each.patience for each in found))
    finally:
        # Last: by now no late command of the probe lock can write the token once more.
        side_by_side([each.finish for each in found], 2 * max(each.patience for each in found))


def _guard(fleet: Fleet) -> None:
    """What the restart guard of a client that meets these masters now says of each."""
    labels = [facts.master for facts in fleet.masters]
    guard, at = Guard(labels, fleet.max_ttl, fleet.restart_guard), now()
    for i, facts in enumerate(fleet.masters):
        # Without INFO a memory is as old as the connection, and ours is new: `optional` says so.
        if facts.memory_report is not None and facts.memory_report.run_id and facts.mode != "sentinel":
            guard.judge(i, facts.memory_report, at)
    for i, facts in enumerate(fleet.masters):
        facts.guarded = guard.wait(i, at)
        facts.guard_reason = guard.fault(i, at).partition(": it has")[0] if facts.guarded else ""
