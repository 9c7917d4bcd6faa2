"""Starting a program that the kernel kills when this process dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

# Runs between fork and the program. It is a program of its own because a preexec_fn runs Python in the
# child of a threaded process, where a lock that another thread held at the fork is held for ever.
_LAUNCHER = """\
import os, signal, sys
parent, report, mask, coerced, *command = sys.argv[1:]
report = int(report)
os.set_inheritable(report, False)
libc = None
try:
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL: a stopped program dies too
except (ImportError, OSError, AttributeError):
    pass
if os.getppid() != int(parent):  # the parent died before the line above: no signal will come
    os._exit(1)
if coerced:  # this Python sets it where the locale is C
    os.environ.pop("LC_CTYPE", None)
for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):  # Python ignores them, and an exec leaves that so
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, map(int, mask.split()))
try:
    if libc is None:
        os.execvp(command[0], command)
    words = [*map(os.fsencode, command), None]
    libc.execvp(words[0], (ctypes.c_char_p * len(words))(*words))  # gives a script without #! to sh
    failed = ctypes.get_errno()
except OSError as error:
    failed = error.errno
os.write(report, b"%d" % failed)
os._exit(127)
"""


def launch(
    command: list[str], *, mask: Iterable[int] | None = None, close_fds: bool = True, **options: Any
) -> subprocess.Popen[bytes]:
    """`subprocess.Popen`, for a program that is killed when the thread that calls this ends (on Linux).

    Returns when the program runs. ``mask``: the signals that it blocks; as this thread does, if it is None.
    Raises ``OSError``. No handler of a signal may raise meanwhile: nobody would wait for the program.
    """
    reader, writer = os.pipe()
    os.set_inheritable(writer, not close_fds)
    passed = [writer] if close_fds else []
    # Ctrl-C reaches the launcher, too, and it would end with a traceback.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        blocked = " ".join(str(int(number)) for number in (before if mask is None else mask))
        coerced = "" if "LC_CTYPE" in (options.get("env") or os.environ) else "coerced"
        words = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), str(writer), blocked, coerced]
        child = subprocess.Popen([*words, *command], close_fds=close_fds, pass_fds=passed, **options)
    except BaseException:
        os.close(reader)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(writer)
    with open(reader, "rb") as report:
        failed = report.read()  # ends with the exec, which closes the other end
    if failed:
        child.wait()
        raise OSError(int(failed), os.strerror(int(failed)), command[0])
    return child
