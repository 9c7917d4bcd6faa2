"""For the tests of what looks at a fleet: locks and snapshots that stand still."""

from __future__ import annotations

import time
from typing import Any

from rlock.cli.scan.snapshot import MasterHealth, Snapshot
from rlock.model import LockStatus, MasterStatus, Waiter

MASTERS = tuple(f"redis://10.0.0.{i}:6379" for i in (1, 2, 3))
HOLDER = "web-1/4711/MainThread:0198f3a2b4c57def8123456789abcdef"


def lock(name: str, holder: str | None = HOLDER, waiters: int = 0, **more: Any) -> LockStatus:
    views = tuple(MasterStatus(m, holder, 1 if holder else 0, 7.5 if holder else None) for m in MASTERS)
    queue = tuple(Waiter(f"job-{i}/{i}/MainThread:{i:032x}", 1_700_000_000.0 + i) for i in range(waiters))
    given = {"since": 1_700_000_000.0 if holder else None, "remaining": 7.5 if holder else None, **more}
    return LockStatus(
        name, holder, hold_count=1, quorum=2, masters=views, queue_length=waiters, waiters=queue, **given
    )


def snapshot(*locks: LockStatus, **more: Any) -> Snapshot:
    masters = (
        MasterHealth(MASTERS[0], None, 0.0004, "Valkey", "9.1.0", guarded=0.0, clock_offset=0.0, locks=2),
        MasterHealth(MASTERS[1], None, 0.25, "Redis", "6.2.7", guarded=4.1, clock_offset=-0.3, locks=1),
        MasterHealth(MASTERS[2], "Connection refused"),
    )
    given: dict[str, Any] = {"masters": masters, **more}
    return Snapshot(time.time(), 2, locks=locks, **given)
