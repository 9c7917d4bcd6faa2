"""The errors. Each has fields, can be pickled, and its text says what to do."""

from collections.abc import Mapping

#: The reasons of an error about a lock that the caller never held.
NOT_HELD = "the calling thread or task does not hold it"
NO_PERMIT = "the calling thread or task has no permit of this semaphore"
NOT_LEADER = "this process does not lead"
#: The reason of an error of a call that would have to wait for its own thread.
NOT_HERE = "this signal handler or finalizer interrupted rlock's own code, and cannot wait for it"


class RLockError(Exception):
    """Base of all errors that this package raises on purpose."""


class OptionsError(RLockError, ValueError):
    """An argument, a setting or a master's configuration makes the request impossible. Nothing is held."""


class NotHeldError(RLockError, RuntimeError):
    """Release of a lock that the calling thread, or task, does not hold.

    ``holder`` names the thread or task of the same client that holds the lock, if one does.
    """

    def __init__(self, name: str, holder: str = "") -> None:
        super().__init__(name, holder)
        self.name = name
        self.holder = holder

    def __str__(self) -> str:
        holder = f"; {self.holder} does, and no other can release it" if self.holder else ""
        return f"cannot release un-acquired lock {self.name!r}: {NOT_HELD}{holder}"


class LeaseLostError(NotHeldError):
    """The caller's hold ended without a release: its critical section may no longer be exclusive."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name)
        self.args = (name, reason)
        self.reason = reason

    def __str__(self) -> str:
        if self.reason in (NOT_HELD, NO_PERMIT, NOT_LEADER):
            return f"lock {self.name!r}: {self.reason}"
        advice = "another owner may have entered since, so check what was written under it"
        return f"the lease of lock {self.name!r} was lost: {self.reason}; {advice}"


class UpgradeError(RLockError, RuntimeError):
    """A reader asked for the writer of its own lock. Two that did so would wait for each other for ever."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"the caller holds lock {self.name!r} as a reader, and cannot become its writer: release the "
            f"reader first, or take the writer from the start (a writer may take the reader, and release "
            f"the writer)"
        )


class QuorumUnreachableError(RLockError):
    """Too few masters answered or may vote, or votes stayed split: nobody can say which owner has the lock.

    ``faults`` maps each master that did not vote to the reason.
    """

    def __init__(self, name: str, quorum: int, answered: int, faults: Mapping[str, str]) -> None:
        faults = dict(faults)
        super().__init__(name, quorum, answered, faults)
        self.name = name
        self.quorum = quorum
        self.answered = answered
        self.faults = faults

    def __str__(self) -> str:
        faults = "; ".join(f"{master}: {fault}" for master, fault in self.faults.items())
        masters = "1 master" if self.quorum == 1 else f"{self.quorum} masters"
        return f"lock {self.name!r} needs the votes of {masters}, and too many gave none: {faults}"


class LockBusyError(RLockError, TimeoutError):
    """Another owner had the lock for all the time that the caller would wait, ``waited`` seconds.

    Functions that `rlock.locked` decorates raise it; ``acquire`` returns False instead.
    """

    def __init__(self, name: str, waited: float) -> None:
        super().__init__(name)  # an OSError takes two arguments for an errno and its text
        self.args = (name, waited)
        self.name = name
        self.waited = waited

    def __str__(self) -> str:
        for_s = f" for all of the {self.waited:.3g} s that this call waited" if self.waited else ""
        return (
            f"lock {self.name!r} was held by another owner{for_s}: the call was not made; try again later, "
            f"wait longer (timeout=), or skip the call then (on_busy='skip')"
        )
