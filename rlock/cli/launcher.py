"""Starting a program that the kernel kills when this process dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

# Runs between fork and the program. It is a program of its own because a preexec_fn runs Python in the
# child of a threaded process, where a lock that another thread held at the fork is held for ever.
_LAUNCHER = """\
import os, signal, sys
parent, report, *command = sys.argv[1:]
report = int(report)
os.set_inheritable(report, False)
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL: a stopped program dies too
except (ImportError, OSError, AttributeError):
    pass
if os.getppid() != int(parent):  # the parent died before the line above: no signal will come
    os._exit(1)
for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):  # Python ignores them, and an exec leaves that so
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
try:
    os.execvp(command[0], command)
except OSError as error:
    os.write(report, b"%d" % error.errno)
    os._exit(127)
"""


def launch(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """`subprocess.Popen`, for a program that is killed when the thread that calls this ends (on Linux).

    Returns when the program runs. Raises ``OSError``. No handler of a signal may raise meanwhile: nobody
    would wait for the program.
    """
    reader, writer = os.pipe()
    # Ctrl-C reaches the launcher, too, and it would end with a traceback.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        words = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), str(writer), *command]
        child = subprocess.Popen(words, pass_fds=[writer], **options)
    except BaseException:
        os.close(reader)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(writer)
    with open(reader, "rb") as report:
        failed = report.read()  # ends with the exec, which closes the other end
    if failed:
        child.wait()
        raise OSError(int(failed), os.strerror(int(failed)), command[0])
    return child
