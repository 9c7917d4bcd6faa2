"""A lock of our own on all masters, taken and given back as any client does it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

from ..._sync.endpoints import Endpoint
from ...client import Client
from ...clock import now
from ...errors import RLockError
from .facts import Fleet, Probe


def probe(endpoints: Sequence[Endpoint], fleet: Fleet, name: str) -> None:
    """Acquire and release it, if a quorum of masters looks as if that could work."""
    found = fleet.probe = Probe(name)
    able = [
        f
        for f in fleet.examined
        if f.permissions.enough
        and not (f.busy or f.write_fault or f.loading)
        and f.mode in (None, "standalone")
    ]
    if len(able) < fleet.quorum:
        found.skipped = "fewer than a quorum of masters would grant it"
        return
    if sum(not facts.not_tried for facts in able) < fleet.quorum:
        found.skipped = "the user may not lock this name (nor need it)"
        return
    # Without the restart guard, which has a check of its own: it would write its note on new masters.
    client = Client(
        list(endpoints),
        fleet.ttl,
        max_ttl=fleet.max_ttl,
        request_timeout=fleet.request_timeout,
        restart_guard=0,
    )
    try:
        with _quiet(), client:
            lock = client.lock(name, renew=False)
            # Connections are made with the first use, and no later acquire pays for them.
            client.status(name)
            began = now()
            if not lock.acquire(blocking=False):
                found.fault = "it is held by another owner, though its name is fresh"
                return
            found.acquire = now() - began
            began = now()
            lock.release()
            found.release = now() - began
    except RLockError as error:
        found.fault = str(error)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What a client would log is a finding here."""
    log = logging.getLogger("rlock")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before
