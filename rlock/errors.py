"""The errors. Every one carries its fields, pickles, and says what to do."""

from __future__ import annotations

from collections.abc import Mapping

#: The reason of an error about a lock that the caller did not hold in the first place.
NOT_HELD = "the calling thread or task does not hold it"


class RLockError(Exception):
    """Base of everything that this package raises on purpose."""


class OptionsError(RLockError, ValueError):
    """An argument, a setting or a master's configuration makes the request impossible. Nothing was done."""


class NotHeldError(RLockError, RuntimeError):
    """Release of a lock that the calling thread, or task, does not hold.

    A ``RuntimeError`` too, as ``threading.RLock`` raises. ``holder`` says who of the same client does hold
    it, if anybody does.
    """

    def __init__(self, name: str, holder: str = "") -> None:
        super().__init__(name, holder)
        self.name = name
        self.holder = holder

    def __str__(self) -> str:
        told = f"; {self.holder} does, and no other can release it" if self.holder else ""
        return f"cannot release un-acquired lock {self.name!r}: {NOT_HELD}{told}"


class LeaseLostError(NotHeldError):
    """The caller's hold ended without a release: its critical section may no longer be exclusive."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name)
        self.args = (name, reason)
        self.reason = reason

    def __str__(self) -> str:
        if self.reason == NOT_HELD:
            return f"lock {self.name!r}: {self.reason}"
        return (
            f"the lease of lock {self.name!r} was lost: {self.reason}; "
            f"another owner may have entered since, so check what was written under it"
        )


class QuorumUnreachableError(RLockError):
    """Fewer than a quorum of masters answered, or may vote, or votes stayed split: nobody can say who has it.

    ``faults`` maps each master that did not vote to what was wrong with it.
    """

    def __init__(self, name: str, quorum: int, answered: int, faults: Mapping[str, str]) -> None:
        faults = dict(faults)
        super().__init__(name, quorum, answered, faults)
        self.name = name
        self.quorum = quorum
        self.answered = answered
        self.faults = faults

    def __str__(self) -> str:
        told = "; ".join(f"{master}: {fault}" for master, fault in self.faults.items())
        masters = "1 master" if self.quorum == 1 else f"{self.quorum} masters"
        return f"lock {self.name!r} needs the votes of {masters}, and too many gave none: {told}"


class LockBusyError(RLockError, TimeoutError):
    """Somebody else had the lock for all the time that the caller would wait, ``waited`` seconds.

    Raised by functions that `rlock.locked` decorates; ``acquire`` returns False instead.
    """

    def __init__(self, name: str, waited: float) -> None:
        super().__init__(name)  # with two arguments an OSError takes them for an errno and its text
        self.args = (name, waited)
        self.name = name
        self.waited = waited

    def __str__(self) -> str:
        for_s = f" for all of the {self.waited:.3g} s that this call waited" if self.waited else ""
        return (
            f"lock {self.name!r} was held by another owner{for_s}: the call was not made; try again later, "
            f"wait longer (timeout=), or say what to do then (on_busy=)"
        )
