"""A lock of doctor's own on all masters, acquired and released as any client does it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

from ..._sync.endpoints import Endpoint
from ...client import Client
from ...clock import now
from ...errors import RLockError
from .facts import Fleet, Probe


def probe(endpoints: Sequence[Endpoint], fleet: Fleet, name: str) -> Probe:
    """Acquire and release it, if a quorum of masters looks able to grant it."""
    found = Probe(name)
    able = [facts for facts in fleet.masters if facts.grants]
    if len(able) < fleet.quorum:
        found.skipped = "fewer than a quorum of masters would grant it"
    elif sum(not facts.not_tried for facts in able) < fleet.quorum:
        found.skipped = "the user may not lock this name (nor need it)"
    if found.skipped:
        return found
    # Without the restart guard, which has a check of its own: it would write its note on new masters.
    client = Client(
        list(endpoints),
        fleet.ttl,
        max_ttl=fleet.max_ttl,
        request_timeout=fleet.request_timeout,
        restart_guard=0,
    )
    try:
        with _no_log(), client:
            lock = client.lock(name, renew=False)
            # Connect first: no later acquire pays for that.
            client.status(name)
            began = now()
            if not lock.acquire(blocking=False):
                found.fault = "it is held by another owner, though its name is fresh"
                return found
            found.acquire = now() - began
            began = now()
            lock.release()
            found.release = now() - began
    except RLockError as error:
        found.fault = str(error)
    return found


@contextlib.contextmanager
def _no_log() -> Iterator[None]:
    """A client's log line would repeat a finding."""
    log = logging.getLogger("rlock")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
