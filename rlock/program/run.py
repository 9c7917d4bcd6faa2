"""`rlock run NAME -- COMMAND`: a command under a lock, in the manner of flock(1) and `etcdctl lock`."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

from ..client import Client
from ..errors import LeaseLostError, OptionsError, RLockError
from ..lock import RLock
from . import exits
from .masters_option import client, masters_option

#: Signals that are meant for the command.
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT)


@click.command(epilog=exits.epilog())
@click.argument("name")
@click.option("-w", "--timeout", type=float, metavar="S", help="Wait S seconds at the most.")
@click.option("-n", "--no-wait", is_flag=True, help="Do not wait: fail at once if it is held.")
@click.option("--fair", is_flag=True, help="First come, first served: nobody who comes later goes before.")
@click.option("--ttl", type=float, metavar="S", help="Length of the lease that is renewed; default 10.")
@click.option(
    "--grace",
    type=float,
    default=5.0,
    show_default=True,
    metavar="S",
    help="Seconds between SIGTERM and SIGKILL for a command whose lock was lost.",
)
@masters_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    name: str,
    timeout: float | None,
    no_wait: bool,
    fair: bool,
    ttl: float | None,
    grace: float,
    masters: str | None,
    command: Sequence[str],
) -> None:
    """Run COMMAND while holding the lock NAME, and exit as it does.

    \b
    Put `--` before COMMAND, so that its options are its own. Examples:
      rlock run nightly -- ./report.sh          wait for it as long as it takes
      rlock run -n nightly -- ./report.sh       cron: skip this run if the last one is still on
      rlock run -w 30 deploy -- make deploy     give up after 30 seconds

    The lease is renewed while COMMAND runs. When it is lost all the same, COMMAND gets SIGTERM, then
    SIGKILL after the grace time. Signals that reach rlock go on to COMMAND.

    Unlike flock(1), what COMMAND leaves running in the background does not keep the lock: it is free when
    COMMAND ends. If rlock itself is killed with -9, COMMAND is killed too (on Linux; not what COMMAND has
    started), and the lock is free within the ttl. A stopped rlock renews nothing.

    Without -n or -w it waits as long as it takes, for masters that cannot be reached as well; exit
    status 69 comes with -n and -w only. RLOCK_MASTERS, RLOCK_TTL, RLOCK_MAX_TTL (for a --ttl over 10),
    RLOCK_REQUEST_TIMEOUT and RLOCK_RESTART_GUARD are read from the environment.

    COMMAND finds RLOCK_NAME, RLOCK_OWNER (what the masters show as the holder), RLOCK_FENCING_TOKEN,
    RLOCK_TTL and RLOCK_MASTERS in its environment.
    """
    if no_wait and timeout is not None:
        raise click.UsageError("--no-wait and --timeout exclude each other: give one of the two")
    if timeout is not None and timeout < 0:
        raise click.UsageError(f"--timeout must be 0 or more seconds, not {timeout:g}")
    if not grace >= 0:
        raise click.UsageError(f"--grace must be 0 or more seconds, not {grace:g}")
    ward = Ward(command, grace)
    with client(masters, ttl=ttl) as own, ward.signals():
        lock = own.lock(name, fair=fair, on_lost=ward.lost)
        if not _acquire(lock, no_wait=no_wait, timeout=timeout):
            click.echo(f"rlock: not acquired: {_holder(own, name)}", err=True)
            sys.exit(exits.NOT_ACQUIRED)
        code: int
        try:
            code = ward.run(_environment(own, lock))
        finally:
            try:
                lock.release()
            except LeaseLostError as error:
                if ward.error is None:
                    click.echo(f"rlock: {error}", err=True)
                ward.error = error
        if ward.error is not None:
            code = exits.LOST  # the log has said why
    sys.exit(code)


def _acquire(lock: RLock, *, no_wait: bool, timeout: float | None) -> bool:
    if no_wait:
        return lock.acquire(blocking=False)
    try:
        return lock.acquire(timeout=-1 if timeout is None else timeout)
    except OptionsError:
        raise  # a ValueError, and none of the time-out's
    except (OverflowError, ValueError) as error:
        raise click.UsageError(f"--timeout: {error}") from None


def _environment(own: Client, lock: RLock) -> dict[str, str]:
    holder = own._engine().hold(lock.name)
    return {
        **os.environ,
        "RLOCK_NAME": lock.name,
        "RLOCK_OWNER": holder.owner if holder else "",
        "RLOCK_FENCING_TOKEN": str(lock.fencing_token) if holder else "",
        "RLOCK_TTL": f"{own.ttl:g}",
        "RLOCK_MASTERS": ",".join(str(endpoint.source) for endpoint in own._endpoints),
    }


def _holder(own: Client, name: str) -> str:
    try:
        found = own.status(name)
    except RLockError as error:
        return f"{name!r} is held ({error})"
    if found.holder is None:
        return f"{name!r} was held until a moment ago"
    for_s = f" for {time.time() - found.since:.0f} s" if found.since is not None else ""
    return f"{name!r} is held by {found.holder}{for_s}"


class Ward:
    """The command: started, signalled, and ended when its lock is lost."""

    def __init__(self, command: Sequence[str], grace: float) -> None:
        self._command = list(command)
        self._grace = grace
        self._child: subprocess.Popen[bytes] | None = None
        # On a terminal the command stays in our process group: else it could not read from it. Without
        # one it gets a group of its own, so that its children can be reached with it.
        self._grouped = not _on_terminal()
        self.error: LeaseLostError | None = None

    def run(self, environment: dict[str, str]) -> int:
        """Start it, wait for it; its exit status."""
        if self.error is not None:
            return exits.LOST
        try:
            self._child = subprocess.Popen(
                self._command,
                env=environment,
                start_new_session=self._grouped,
                # Set in the child between fork and exec; everything it needs was loaded before.
                preexec_fn=_die_with_parent,
            )
        except FileNotFoundError:
            hint = " (a shell line? use: sh -c '...')" if " " in self._command[0] else ""
            click.echo(f"rlock: {self._command[0]}: command not found{hint}", err=True)
            return exits.NOT_FOUND
        except (OSError, subprocess.SubprocessError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            click.echo(f"rlock: {self._command[0]}: {why}", err=True)
            return exits.NOT_EXECUTABLE
        self._end_if_lost()  # while it was being started, when there was nothing to end yet
        code = self._child.wait()
        return code if code >= 0 else exits.SIGNAL - code

    def _end_if_lost(self) -> None:
        if self.error is not None:
            self._end()

    def lost(self, error: LeaseLostError) -> None:
        """The lock is gone: nobody keeps others out of the command's section any more."""
        self.error = error
        self._end()

    def _end(self) -> None:
        child = self._child
        if child is None:
            return
        self._send(signal.SIGTERM)
        try:
            child.wait(self._grace)
        except subprocess.TimeoutExpired:
            pass
        # Also after a polite end: what it has started may still run in its group.
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        child = self._child
        if child is None:
            return
        try:
            if self._grouped:
                os.killpg(child.pid, number)
            elif child.poll() is None:
                child.send_signal(number)
        except ProcessLookupError:
            pass

    def signals(self) -> _Handlers:
        """Handlers that pass signals on while the command runs, and end the wait before it does."""
        return _Handlers(self)

    def signalled(self, number: int) -> None:
        """A signal for us."""
        if self._child is None:
            _leave(number)
        from_terminal = number in (signal.SIGINT, signal.SIGQUIT) and not self._grouped
        if not from_terminal:  # the terminal has sent it to the command as well
            self._send(number)


class _Handlers:
    def __init__(self, ward: Ward) -> None:
        self._ward = ward
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in FORWARDED:
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup
            self._before[number] = signal.signal(number, lambda n, _: self._ward.signalled(n))

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _leave(number: int) -> NoReturn:
    # An exception and not the default action: the acquire that waits takes its votes back on the way.
    raise SystemExit(exits.SIGNAL + number)


def _load_prctl() -> Callable[[int, int], int] | None:
    try:
        prctl: Callable[[int, int], int] = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None  # not Linux
    return prctl


_PRCTL = _load_prctl()
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    # `kill -9` of rlock, or the kernel out of memory: nobody renews the lock any more, and nobody is left
    # to end the command politely before the next one starts.
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _on_terminal() -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
