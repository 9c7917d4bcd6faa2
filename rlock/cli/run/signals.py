"""Signals of `rlock run`: one thread takes them all, because it learns whether the kernel sent them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable

#: Signals that stop COMMAND, and rlock with it.
STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
#: Signals that end most programs, and rlock while it waits.
ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
TAKEN = (*ENDS, *STOPS, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
#: Interrupts the main thread. No program is ended by it, and rlock has no other use for it.
_INTERRUPT = signal.SIGURG


def receive(tell: Callable[[int, bool], None], interrupted: Callable[[], None]) -> Iterable[int]:
    """From now on call ``tell`` in a thread with each signal, and whether the kernel sent it (Ctrl-C does).

    Call it in the main thread before there is another one: threads inherit that they take no signals.
    ``interrupted`` runs in the main thread after `interrupt_main`. Returns the mask from before.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    taken = {n for n in TAKEN if n not in mask and signal.getsignal(n) is not signal.SIG_IGN}  # nohup
    taken.add(signal.SIGCHLD)  # also if the parent ignores it: the kernel would throw the exit status away
    for number in taken:  # macOS drops what has no handler; COMMAND does not inherit it
        signal.signal(number, lambda *_: None)
    signal.signal(_INTERRUPT, lambda *_: interrupted())
    signal.pthread_sigmask(signal.SIG_BLOCK, taken)

    def take() -> None:
        while True:
            if sys.platform == "darwin":
                number = signal.sigwait(taken)  # tells no sender
                tell(number, number in (signal.SIGINT, signal.SIGQUIT, *STOPS) and os.isatty(0))
            else:
                found = signal.sigwaitinfo(taken)
                tell(found.si_signo, found.si_code > 0)

    threading.Thread(target=take, name="signals", daemon=True).start()
    return mask


def interrupt_main() -> None:
    """Run ``interrupted`` in the main thread, whatever it waits for."""
    signal.pthread_kill(threading.main_thread().ident or 0, _INTERRUPT)
