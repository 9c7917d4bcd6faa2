"""Work in a forked child."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

LIMIT_S = 20


def in_child(work: Callable[[], object]) -> int:
    """The exit status of a forked child that does this; it is killed if it hangs."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT_S)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
