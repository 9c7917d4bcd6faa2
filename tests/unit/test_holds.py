"""The lease table."""

from __future__ import annotations

from rlock.rules.holds import Hold, Holds, OwnerKey, ThreadLiveness
from rlock.rules.options import ClientOptions, LockOptions


def test_fixed_leases_that_were_released_leave_nothing_behind() -> None:
    holds, pulse = Holds(), ThreadLiveness()
    key = OwnerKey("a", pulse)
    options = LockOptions("x", ClientOptions().lease(None), renew=False)
    kept = [Hold(key, LockOptions(f"kept-{i}", options.lease, renew=False), f"k:{i}", 0.0) for i in range(10)]
    for hold in kept:
        holds.add(hold)
    for i in range(5_000):
        hold = Hold(key, options, f"o:{i}", float(i))
        holds.add(hold)
        holds.remove(hold)
    # Nobody pops what has ended where no watchdog runs.
    assert len(holds._others) < 200
    assert set(holds.take_due(10.0)) == set(kept)
