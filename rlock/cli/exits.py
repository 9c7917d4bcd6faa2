"""Exit codes, in one table. The numbers are those of sysexits.h where it has one for the case."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..client import Client

FAILED = 1
USAGE = 64
UNREACHABLE = 69
OUTPUT = 74
NOT_ACQUIRED = 75
LOST = 76
CONFIG = 78
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNAL = 128


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, with its number, where it ends a command as Ctrl-C does."""


def _terminate(number: int, *_: object) -> None:
    raise Terminated(number)


def end_at_signals(handler: Callable[..., object] = _terminate) -> None:
    """Have SIGTERM and SIGHUP, if it is not ignored (nohup), raise `Terminated` or call ``handler``."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


TABLE = {
    FAILED: "doctor: something is to be mended; evict: nobody held it; demo: not proven",
    USAGE: "bad usage: an option, a master's URL, a password or a master's configuration",
    UNREACHABLE: "fewer than a quorum of masters answered, or may vote yet",
    OUTPUT: "what was to be printed could not be written",
    NOT_ACQUIRED: "somebody else held the lock for all the time (another code with -E)",
    LOST: "the lock was lost while COMMAND ran, and COMMAND was ended",
    CONFIG: "the settings file cannot be read, or holds something that is no setting",
    NOT_EXECUTABLE: "COMMAND cannot be executed",
    NOT_FOUND: "COMMAND was not found",
    SIGNAL: "plus a signal's number: COMMAND, or rlock while it waited, was ended by it",
}


def of(error: Exception) -> int:
    """The exit status of an error of the library."""
    from ..errors import LeaseLostError, OptionsError

    if isinstance(error, OptionsError):
        return getattr(error, "exit_status", USAGE)
    return LOST if isinstance(error, LeaseLostError) else UNREACHABLE


def refused(client: Client) -> bool:
    """Whether so many masters refuse the last question for a lasting reason that no quorum is left."""
    from ..model import LASTING
    from ..rules.quorum import quorum

    servers = client._engine().masters._connections.servers
    faults = [server.refusal if server.connection else server.fault for server in servers]
    refusing = sum(fault is not None and fault.kind in LASTING for fault in faults)
    return refusing > len(servers) - quorum(len(servers))


def unanswered(client: Client) -> int:
    """The exit status of a command that too few masters answered."""
    return USAGE if refused(client) else UNREACHABLE


def rows() -> list[tuple[str, str]]:
    """The table as texts, as help pages and manuals show it."""
    return [(f"{code}+n" if code == SIGNAL else str(code), meaning) for code, meaning in TABLE.items()]


def epilog() -> str:
    """The statuses of `rlock run` as the end of its help text."""
    told = "\n".join(
        f"  {code}  {meaning}" for code, meaning in TABLE.items() if code not in (FAILED, OUTPUT)
    )
    return f"\b\nExit status: that of COMMAND, or\n{told}"
