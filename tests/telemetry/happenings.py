"""Events as a client tells them, made by hand; and an observer that keeps them."""

from __future__ import annotations

from typing import Any

from rlock import events
from rlock.events import Event


def acquired(lock: str = "orders:42", owner: str = "o1", **fields: Any) -> events.Acquired:
    usual = {"fair": False, "waited": 0.002, "votes": 2, "masters": 3, "handed": False, "queued": False}
    return events.Acquired(lock=lock, owner=owner, **{**usual, **fields})


def not_acquired(outcome: str, lock: str = "orders:42", **fields: Any) -> events.NotAcquired:
    return events.NotAcquired(**{"lock": lock, "fair": False, "waited": 0.5, "outcome": outcome, **fields})


def released(lock: str = "orders:42", owner: str = "o1", **fields: Any) -> events.Released:
    usual = {"held": 1.5, "took": 0.001, "confirmed": True}
    return events.Released(lock=lock, owner=owner, **{**usual, **fields})


def lost(lock: str = "orders:42", owner: str = "o1", **fields: Any) -> events.Lost:
    usual = {"held": 3.0, "cause": "expired", "reason": "its lease ran out"}
    return events.Lost(lock=lock, owner=owner, **{**usual, **fields})


#: One of each, in an order that a client could tell them in.
ALL: tuple[events.Event, ...] = (
    events.MasterFailed("m1:6379", "timeout", "no answer within 0.5 s"),
    events.MasterAnswers("m1:6379"),
    events.MasterSlow("m1:6379", took=0.3, timeout=0.5),
    events.MasterGuarded("m1:6379", remaining=9.5, reason="restarted 1 s ago"),
    events.MasterHealed("m1:6379", locks=3),
    events.SubscribeRefused("m1:6379", "ERR unknown command"),
    events.UnknownMessage("m1:6379", "orders:42", "release", "b'hello'"),
    events.GroupChanged("m1:6379", "a1", replicas=2, acknowledged=2),
    events.GroupChanged("m1:6379", "b2", replicas=2, acknowledged=0),
    events.GroupChanged("m1:6379", "b2", replicas=2, acknowledged=1),
    events.Queued("orders:42", length=4),
    acquired(queued=True, handed=True, waited=0.2),
    events.OutOfStep("m1:6379"),
    events.MaxTtlDiffers("m1:6379", max_ttl=60.0, own=10.0),
    events.Renewed(locks=10, failed=2, took=0.004),
    events.RenewalFailed("orders:42", "o1", remaining=6.5),
    events.RenewalRecovered("orders:42", "o1"),
    events.RenewalStopped("orders:42", "o1", cause="max_hold", reason="held for longer than max_hold"),
    lost(),
    not_acquired("busy"),
    acquired(owner="o2"),
    released(owner="o2", confirmed=False),
    events.ReleaseUnsure("orders:42", "o2", ttl=10.0),
    events.KeepUnsure("orders:42", "o2", rest=3.5),
)


class Ledger(list[Event]):
    """An observer that keeps what it is told."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, *kinds: type[Event]) -> list[Any]:
        return [event for event in self if isinstance(event, kinds)]
