"""Child processes that cannot outlive this one, and ports for them."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import shutil
import socket
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path

from ...cli.launcher import launch

PORT_TRIES = 20


def spawn(command: list[str], output: int, directory: Path) -> subprocess.Popen[bytes]:
    """Start ``command`` in ``directory``; the descriptor ``output`` takes what it says. Any thread may call.

    On Linux the child is killed when this process ends in whatever way. Raises ``OSError``.
    """
    return _PARENT.spawn(command, output, directory)


def free_port() -> int:
    """A port that nobody listens on now, and that no outgoing connection is ever given.

    From the ephemeral range (where bind(0) picks) a client that reconnects to a dead master sooner or
    later gets that very port as its own source: it then talks to itself, and the master cannot come back.
    """
    lowest = 32768
    with contextlib.suppress(OSError, ValueError, IndexError):
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for attempt in range(2 * PORT_TRIES):
        below = attempt < PORT_TRIES and lowest > 12000
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", _PORTS.randrange(10000, lowest) if below else 0))
            port: int = probe.getsockname()[1]
            return port
    raise OSError("no free port on 127.0.0.1")


_PORTS = random.SystemRandom()  # a program that seeds `random` must not get the same ports in every process


class _Parent:
    """One thread that lives as long as this process and starts every server.

    The death signal is tied to the *thread* that forked: a server started from a short-lived thread would
    be killed when that thread ends, with the program still running.
    """

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)  # threads do not survive a fork, locks may stay shut

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._orders: queue.SimpleQueue[tuple[Future[subprocess.Popen[bytes]], list[str], int, Path]] | None
        self._orders = None

    def spawn(self, command: list[str], output: int, directory: Path) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._orders is None:
                self._orders = queue.SimpleQueue()
                threading.Thread(target=self._run, name="embedded-masters", daemon=True).start()
            answer: Future[subprocess.Popen[bytes]] = Future()
            self._orders.put((answer, command, output, directory))
        return answer.result()

    def _run(self) -> None:
        orders = self._orders
        while orders is not None:
            answer, command, output, directory = orders.get()
            try:
                process = launch(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=directory,
                    # A terminal's Ctrl-C goes to its process group: the servers must outlive the locks.
                    start_new_session=True,
                )
            except BaseException as error:
                answer.set_exception(error)
            else:
                answer.set_result(process)
            del answer


_PARENT = _Parent()


def clean(cell: list[subprocess.Popen[bytes]], directory: str | None, owner_pid: int) -> None:
    """End these processes and remove their directory, if they are this process's own."""
    if os.getpid() != owner_pid:
        return  # a forked child must not pull the masters from under its parent
    for process in cell:
        process.kill()
        process.wait()
    cell.clear()
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)
