"""What every stream of events has to keep to, whatever happens to the locks that it tells of."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from rlock.events import Acquired, Event, Lost, NotAcquired, Queued, Released


class Ledger(list[Event]):
    """An observer that keeps what it is told, and says what is wrong with it."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, *kinds: type[Event]) -> list[Any]:
        return [event for event in self if isinstance(event, kinds)]

    def faults(self) -> list[str]:
        """Holds and places in the queue that were not told of exactly once from their begin to their end."""
        wrong: list[str] = []
        holds: dict[str, list[str]] = defaultdict(list)
        queued: Counter[str] = Counter()
        for event in list(self):
            if isinstance(event, Acquired | Released | Lost):
                holds[event.owner].append(event.event)
            if isinstance(event, Queued):
                queued[event.lock] += 1
            if isinstance(event, Acquired | NotAcquired) and event.queued:
                queued[event.lock] -= 1
                if queued[event.lock] < 0:
                    wrong.append(f"{event.lock}: left the queue without a place")
        for owner, told in holds.items():
            if told not in (["acquired", "released"], ["acquired", "lost"]):
                wrong.append(f"{owner}: {', '.join(told)}")
        wrong += [
            f"{lock}: {count} stand in the queue for ever" for lock, count in queued.items() if count > 0
        ]
        return wrong

    def ends(self) -> Counter[str]:
        """Acquires that were told to have ended, by how."""
        return Counter(
            "acquired" if isinstance(event, Acquired) else event.outcome
            for event in self.of(Acquired, NotAcquired)
        )
