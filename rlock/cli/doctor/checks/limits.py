"""Limits that end connections: of the subscribers that wait for a lock, above all."""

from __future__ import annotations

from collections.abc import Iterator

from ....rules.timing import renew_period
from ..facts import Facts, Fleet
from ..findings import Severity, Told, note, of_master, warning

#: A message has some 200 bytes. So many may lie there while a process with many waiters is away.
LEAST_HARD = 1024 * 1024
LEAST_SOFT = 256 * 1024
_USUAL = "CONFIG SET client-output-buffer-limit 'pubsub 32mb 8mb 60'"


def pubsub_limits(text: str) -> tuple[int, int, int] | None:
    """Hard and soft limit in bytes, and the seconds of the soft one, of `client-output-buffer-limit`."""
    words = text.split()
    for i, word in enumerate(words):
        if word == "pubsub" and len(words) >= i + 4:
            try:
                hard, soft, soft_s = (int(each) for each in words[i + 1 : i + 4])
            except ValueError:
                return None
            return hard, soft, soft_s
    return None


@of_master("output-buffer", Severity.WARNING, "Subscribers may lag for a moment, and not for ever.")
def output_buffer(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """client-output-buffer-limit pubsub."""
    limits = pubsub_limits(facts.config.get("client-output-buffer-limit", ""))
    if limits is None:
        return
    hard, soft, soft_s = limits
    if (0 < hard < LEAST_HARD) or (0 < soft < LEAST_SOFT and soft_s < 60):
        yield warning(
            f"the limit for subscribers is small: client-output-buffer-limit pubsub {hard} {soft} {soft_s}",
            "a process with many waiters that lags for a moment is cut off; its waiters miss the wake-up and "
            "sleep until they look again",
            "raise it, and the same in its configuration",
            _USUAL,
        )
    elif hard == 0 and soft == 0:
        yield note(
            "subscribers have no limit: client-output-buffer-limit pubsub 0 0 0",
            "a process that is stopped while others use many locks fills this master's memory",
            "set the usual one, and the same in its configuration",
            _USUAL,
        )


@of_master("patterns", Severity.WARNING, "Nobody listens to all channels (PSUBSCRIBE).")
def patterns(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """Who listens to everything is counted by PUBLISH as one who waits."""
    count = facts.number("pubsub_patterns")
    if count:
        yield warning(
            f"there are {count} subscriptions to patterns of channels (PSUBSCRIBE)",
            "if one matches rlock:*, a release takes a waiter that died for one that listens: the next one "
            "gets the lock a second later",
            "have that program name its channels, or listen to others than rlock:*; its connections are in",
            "CLIENT LIST TYPE pubsub",
        )


@of_master("keepalive", Severity.WARNING, "Masters notice clients that vanished (tcp-keepalive).")
def keepalive(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """A subscription of a dead machine still counts as one that listens."""
    if facts.config.get("tcp-keepalive") == "0" and facts.port is not None:
        yield warning(
            "tcp-keepalive is 0",
            "the connections of a machine that vanished stay for ever: a release hands the lock to its "
            "waiters, which costs the others a second each time, and connections run out",
            "set it, and the same in its configuration",
            "CONFIG SET tcp-keepalive 300",
            "CONFIG REWRITE",
        )


@of_master("idle-timeout", Severity.WARNING, "Idle connections are left alone (timeout).")
def idle_timeout(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """Every closed connection is a new greeting, and a retry."""
    text = facts.config.get("timeout", "")
    idle = int(text) if text.isdigit() else 0
    period = renew_period(fleet.ttl)
    if 0 < idle <= max(period, 10):
        yield warning(
            f"timeout is {idle}: it closes connections that were idle for {idle} s",
            f"a holder sends nothing for {period:.1f} s between two renewals, and an idle client for longer: "
            "they connect anew all the time, and each lock begins with that",
            "turn it off, and the same in its configuration; tcp-keepalive finds the dead ones",
            "CONFIG SET timeout 0",
            "CONFIG REWRITE",
        )
    elif 0 < idle < 300:
        yield note(
            f"timeout is {idle}: it closes connections that were idle for {idle} s",
            "the first lock after a pause takes a new connection, and the time for that",
            "turn it off if pauses are common",
            "CONFIG SET timeout 0",
        )


@of_master("clients", Severity.WARNING, "There is room for more connections.")
def clients(facts: Facts, fleet: Fleet) -> Iterator[Told]:
    """A client has two on each master, waiters or not."""
    used, most = facts.number("connected_clients"), facts.number("maxclients")
    if used and most and used >= 0.8 * most:
        yield warning(
            f"{used} of {most} possible connections are open",
            "at the limit new clients get no vote here; each process needs two connections",
            "find who holds so many (CLIENT LIST), or raise it, and the same in its configuration",
            f"CONFIG SET maxclients {2 * most}",
        )
