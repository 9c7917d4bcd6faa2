"""Examine masters side by side: all facts about each, in bounded time and without changing anything.

The exception is a lock of doctor's own on each master, which is released; its fencing token is deleted, which
a lock would leave for an hour.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

from ..._client import handshake
from ..._client.engine import client_label
from ..._client.libraries import LONGEST_REPLY
from ..._sync.connections import Endpoint
from ...clock import now
from ...model import Code
from ...procedures.port import new_owner
from ...rules import commands, keys, replies
from ...rules.replies import text
from ...rules.restart_guard import Guard, MemoryReport
from ...rules.timing import lease_ms
from ..numbers import time_us as parse_time
from .acl import (
    COMMANDS,
    OPTIONAL,
    Permissions,
    Scope,
    command_trials,
    denial,
    key_trial,
    optional_trials,
    rules_refused,
)
from .facts import ClockSample, Facts, Fleet, Target, Trouble
from .session import Session, SessionError, trouble_of

#: Round trips that are measured.
SAMPLES = 7
#: Digits of a client's id, at the end of its channels.
_ID_DIGITS = 16
#: A master that answers everything, but late, may take so many time-outs in all.
_PATIENCE = 6

_CONFIG = (
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "save",
    "stop-writes-on-bgsave-error",
    "tcp-keepalive",
    "timeout",
    "client-output-buffer-limit",
    "busy-reply-threshold",
    "lua-time-limit",  # the same before Redis 7
)


class Examination:
    """One master: `look`, later `look_again`, at last `finish`; each in a thread of its own."""

    def __init__(self, endpoint: Endpoint, scope: Scope, fleet: Fleet) -> None:
        arguments = endpoint._arguments
        self._endpoint = endpoint
        self._scope = scope
        self._fleet = fleet
        #: Longer than the request time-out: a master that is too slow can be told from a dead one.
        self.patience = max(2 * fleet.request_timeout, 1.0)
        self._session: Session | None = None
        self._locked = False
        named = "path" not in arguments and endpoint.service is None
        self._host = str(arguments.get("host", "localhost")) if named else None
        target = Target(
            endpoint.label,
            database=int(arguments.get("db") or 0),
            tls=endpoint.label.startswith("rediss:"),
            local="path" in arguments,
            user=str(arguments.get("username") or "default"),
            with_password=bool(arguments.get("password") or arguments.get("credential_provider")),
            replicas=endpoint.replicas,
        )
        self.facts = Facts(target)

    def look(self) -> None:
        """Ask everything; a failure is a fact, too."""
        facts = self.facts
        deadline = time.monotonic() + _PATIENCE * self.patience
        try:
            self._resolve()
            session = self._session = Session(self._endpoint, self.patience, deadline)
            if peer := session.peer():
                facts.target.address, facts.target.port = peer
            facts.timing.round_trips, facts.timing.clock = self._sample(session)
        except (SessionError, OSError) as error:
            facts.trouble, facts.fault = trouble_of(error)
            return
        if facts.write_fault is not None:
            return  # busy with a script: it answers nothing else
        try:
            self._ask(session)
            self._listen(session, deadline)
            self._lock(session)
            if facts.target.replicas is not None:
                self._look_at_replicas(deadline)
        except (SessionError, OSError) as error:
            facts.trouble, facts.fault = Trouble.CUT_SHORT, str(error)

    def look_again(self) -> None:
        """Read the clock for the second time."""
        session, facts = self._session, self.facts
        if session is None or facts.timing.clock is None or facts.trouble is not None:
            return
        session.deadline = time.monotonic() + self.patience
        with contextlib.suppress(SessionError, OSError):
            facts.timing.clock_later = self._sample(session)[1]

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
            pass  # the token expires in an hour
        finally:
            session.close()

    # -- the questions -----------------------------------------------------------------------------

    def _resolve(self) -> None:
        if self._host is None:
            return
        found = socket.getaddrinfo(self._host, None, type=socket.SOCK_STREAM)
        addresses = sorted({str(entry[4][0]) for entry in found})
        self.facts.target.addresses = tuple(addresses)
        self.facts.target.local = all(
            ipaddress.ip_address(a.partition("%")[0]).is_loopback for a in addresses
        )

    def _sample(self, session: Session) -> tuple[list[float], ClockSample | None]:
        """Round trips, and the clock by the shortest of them, which has the least uncertainty."""
        took: list[float] = []
        best: ClockSample | None = None
        until = time.monotonic() + self.patience / 2
        # At least three: a master that hiccups once is not slow.
        while len(took) < SAMPLES and (time.monotonic() < until or len(took) < 3):
            sent_at = now()
            reply = session.one("TIME")
            came_at = now()
            took.append(came_at - sent_at)
            time_us = parse_time(reply)
            if time_us is not None:
                sample = ClockSample((sent_at + came_at) / 2, time_us / 1e6, (came_at - sent_at) / 2)
                best = sample if best is None or sample.error < best.error else best
            elif not isinstance(reply, Exception):
                raise SessionError(Trouble.PROTOCOL, f"to TIME it answers {reply!s:.60}")
            elif str(reply).startswith("BUSY"):
                self.facts.write_fault = str(reply)
                break
        return took, best

    def _look_at_replicas(self, deadline: float) -> None:
        """The clocks of the servers that may become the primary."""
        for host, port in self.facts.replica_addresses:
            found: ClockSample | str
            try:
                session = Session(_at(self._endpoint, host, port), self.patience, deadline)
                with contextlib.closing(session):
                    found = self._sample(session)[1] or "it tells no time"
            except (SessionError, OSError) as error:
                found = str(error)
            self.facts.timing.replica_clocks[f"{host}:{port}"] = found

    def _ask(self, session: Session) -> None:
        facts, guarded = self.facts, not self._fleet.guard_off
        commands_tried, optional_tried = command_trials(self._scope), optional_trials()
        if facts.target.replicas:
            commands_tried["wait"] = ("WAIT", "0", "1")
        wanted = self._scope.keys(guarded=guarded)
        asked: list[Sequence[str]] = [("INFO",), *(("CONFIG", "GET", name) for name in _CONFIG)]
        asked += [*commands_tried.values(), *optional_tried.values(), *(key_trial(key) for key, _ in wanted)]
        answers = iter(session.ask(asked))
        info = next(answers)
        if isinstance(info, bytes):
            facts.info = replies.fields(info)
        config = {name: next(answers) for name in _CONFIG}
        settings = {name: replies.setting(reply) for name, reply in config.items()}
        facts.config = {name: value for name, value in settings.items() if value is not None}
        refused = {command: denial(next(answers)) for command in commands_tried}
        lacking = {command: denial(next(answers)) for command in optional_tried}
        lacking |= {"info": denial(info), "config|get": denial(config["appendfsync"])}
        facts.permissions = Permissions(
            commands=tuple(c for c, why in refused.items() if why in ("command", "other")),
            unknown=tuple(c for c, why in (refused | lacking).items() if why == "unknown"),
            keys=rules_refused([rule for _, rule in wanted], list(answers)),
            optional=tuple(c for c in OPTIONAL if lacking[c] not in (None, "unknown")),
        )
        if facts.info is not None and "appendfsync" in facts.config:
            fsync, unsynced = config["appendfsync"], config["no-appendfsync-on-rewrite"]
            durable = handshake.is_durable(info, info, fsync, unsynced)
            facts.memory.durable = durable and facts.target.replicas is None
        if guarded:
            # Each connection of a client begins so: the note that it writes is true, whoever comes first.
            told = MemoryReport(facts.run_id or "", "durable" if facts.memory.durable else "volatile")
            if facts.target.replicas is not None:
                told = told.of_group(facts.text("master_replid") or "")
            vote = replies.decode_handshake(session.run(commands.handshake(told.run_id, told.memory)))
            report = facts.memory.report = told._replace(note=vote.note or "", time_us=vote.time_us)
            if vote.note is not None and ("+" in vote.note) != ("+" in report.run_id):
                refused_as = handshake.GROUP if facts.target.replicas is None else handshake.NO_GROUP
                facts.write_fault, facts.memory.report = refused_as, None

    def _listen(self, session: Session, deadline: float) -> None:
        """A second connection: does publishing work, and does it lead to the same server?"""
        facts, channels = self.facts, self._scope.channels()
        other = Session(self._endpoint, self.patience, deadline)
        try:
            facts.twice = _subscribed_twice(session)
            subscriptions = [("SUBSCRIBE", channel) for pair, _ in channels for channel in pair]
            info, *heard = other.ask([("INFO", "server"), *subscriptions])
            published = session.ask([("PUBLISH", silent, "0") for (_, silent), _ in channels])
            for _ in range(published.count(1)):
                # The messages come before the reply to the next command.
                message = other.receive()
                if not (isinstance(message, list) and message[:1] == [b"message"]):
                    facts.unheard = True
            left = other.one("UNSUBSCRIBE", channels[0][0][0])
        except SessionError as error:
            if error.trouble is not Trouble.TIMEOUT:
                raise
            session.one("TIME")  # it answers
            facts.unheard = True
            return
        finally:
            other.close()
        if isinstance(info, bytes):
            facts.other_run_id = replies.fields(info).get("run_id")
        refusals = {
            "publish": [denial(reply) for reply in published],
            "subscribe": [denial(reply) for reply in heard],
            "unsubscribe": [denial(left)],
        }
        facts.unheard = facts.unheard or (not any(refusals["subscribe"]) and 0 in published)
        by_lock = zip(
            refusals["publish"], refusals["subscribe"][::2], refusals["subscribe"][1::2], strict=True
        )
        each = zip(channels, by_lock, strict=True)
        barred = [rule for (_, rules), refused in each if "channel" in refused for rule in rules]
        known = facts.permissions
        without = [c for c, why in refusals.items() if {"command", "other"} & {*why}]
        known = facts.permissions = replace(
            known,
            commands=tuple(c for c in (*COMMANDS, "wait") if c in known.commands or c in without),
            channels=tuple(dict.fromkeys(barred)),
            unknown=(*known.unknown, *(c for c, why in refusals.items() if "unknown" in why)),
        )
        own = {*self._scope.key_rules, *self._scope.channel_rules}
        names_only = not known.commands and {*known.keys, *known.channels} <= own
        facts.permissions = replace(known, only_of_probe=names_only and not self._scope.given)

    def _lock(self, session: Session) -> None:
        """Acquire a lock of our own on this master alone: what does it answer to a write, and how fast?"""
        facts, name = self.facts, self._scope.probe
        if not facts.permissions.enough or facts.mode not in (None, "standalone"):
            return
        for _ in range(3):
            began = now()
            reply = session.run(commands.status(name, guarded=not self._fleet.guard_off))
            facts.timing.scripts.append(now() - began)
            if isinstance(reply, Exception):
                # A user may be allowed to lock the one name that was given, and no other.
                if self._scope.prefix or denial(reply) != "key":
                    facts.write_fault = str(reply)
                return
        # The first time may have carried the source.
        facts.timing.scripts = facts.timing.scripts[1:]
        self._locked = True
        owner = new_owner(client_label("rlock-doctor"))
        lease = lease_ms(self._fleet.ttl)
        taken = session.run(commands.acquire(name, owner, lease, guarded=False))
        if replies.decode_one(taken).code != Code.YES:
            facts.write_fault = str(taken)
        # In any case: an error does not say that nothing was written.
        session.run(commands.undo(keys.OWN, name, owner, hand_on=False))


def _subscribed_twice(session: Session) -> int:
    """How many channels of one client have several subscribers. 0 also if the user may not ask that.

    Of a large fleet it looks at a sample: the ids of clients are random, and the last digits choose some.
    """
    digits, names = os.urandom(2).hex(), list[str]()
    for left in range(len(digits), -1, -1):
        found = session.one("PUBSUB", "CHANNELS", f"*|{'?' * (_ID_DIGITS - left)}{digits[:left]}")
        names = [text(name) for name in found] if isinstance(found, list) else []
        if 16 * sum(len(name) + 300 for name in names) > LONGEST_REPLY // 2:
            break  # the reply with one digit less would be too long
    counts = session.one("PUBSUB", "NUMSUB", *names) if names else []
    return sum(count > 1 for count in counts[1::2]) if isinstance(counts, list) else 0


def examine(endpoints: Sequence[Endpoint], fleet: Fleet, scope: Scope, measure_s: float) -> None:
    """Examine all masters into ``fleet``; ``measure_s``: seconds between two looks at the clocks."""
    found = [Examination(endpoint, scope, fleet) for endpoint in endpoints]
    fleet.masters = [each.facts for each in found]
    longest = max(each.patience for each in found)
    try:
        within = longest * (_PATIENCE + 2)
        done = _side_by_side([each.look for each in found], within)
        # A look-up of a name cannot be interrupted, and its thread may still write into its facts.
        late = {"trouble": Trouble.DNS, "fault": f"no answer within {within:.1f} s"}
        fleet.masters = [
            each.facts if ended else Facts(Target(each.facts.master), **late)  # type: ignore[arg-type]
            for each, ended in zip(found, done, strict=True)
        ]
        _judge_guard(fleet)
        first = [facts.timing.clock.local_at for facts in fleet.masters if facts.timing.clock]
        if measure_s > 0 and first:
            time.sleep(max(0.0, max(first) + measure_s - now()))
            _side_by_side([each.look_again for each in found], 2 * longest)
    finally:
        # Last: by now no late command of the probe can write its fencing token once more.
        _side_by_side([each.finish for each in found], 2 * longest)


def _side_by_side(calls: Sequence[Callable[[], None]], within: float) -> list[bool]:
    """Run them, each in a thread; which of them ended in time."""
    threads = [threading.Thread(target=call, name="rlock-doctor", daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    until = time.monotonic() + within
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return [not thread.is_alive() for thread in threads]


def _judge_guard(fleet: Fleet) -> None:
    """The restart guard's view of each master, for a client that meets these masters now."""
    guard, at = Guard(len(fleet.masters), fleet.max_ttl, fleet.restart_guard), now()
    for i, facts in enumerate(fleet.masters):
        report = facts.memory.report
        # Without INFO a memory is as old as the connection, and ours is new: `permissions` says so.
        if report is not None and report.run_id and facts.mode != "sentinel":
            guard.judge(i, report, at)
    for i, facts in enumerate(fleet.masters):
        facts.memory.guarded = guard.remaining(i, at)
        if facts.memory.guarded:
            facts.memory.guard_reason = guard.fault(i, at).partition(": it has")[0]


def _at(endpoint: Endpoint, host: str, port: int) -> Endpoint:
    """Another server of the same group."""
    other, library = copy(endpoint), endpoint.library
    other.service, other.__dict__["label"] = None, f"{host}:{port}"
    other._class = library.SSLConnection if endpoint.tls else library.Connection
    other._arguments = {**endpoint._arguments, "host": host, "port": port}
    return other
