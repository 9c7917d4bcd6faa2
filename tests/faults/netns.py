"""Private networks: namespaces that are joined to each other only, so no packet leaves the machine."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import weakref
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rlock.testing.local.embedded import ServerBinary
from rlock.testing.local.spawn import spawn

_CLONE_NEWNET = 0x40000000
_MINE = "/proc/thread-self/ns/net"
_RULES = """\
table inet faults {
    chain arriving { type filter hook input priority 0; }
}
"""


@cache
def why_not() -> str:
    """Why there can be no private network on this machine; empty: there can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "a network namespace needs root"
    for tool in ("ip", "nft", "nsenter"):
        if shutil.which(tool) is None:
            return f"a private network needs {tool} (packages iproute2, nftables, util-linux)"
    try:
        host = Bridge().host()
        host.cut(host)
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", "") or str(error)
        return f"no private network with a firewall here: {told.strip()}"
    # The thread that starts servers lives as long as this process, so it must not begin in a namespace.
    spawn(["true"], 2, Path()).wait()
    return ""


class PrivateNetwork:
    """Inside ``with network.inside()`` the calling thread, and what it starts, live in the namespace.

    Threads and processes that others start do not: give masters the `binary` of this network.
    """

    def __init__(self) -> None:
        with _coming_back():
            _libc("unshare", _CLONE_NEWNET)
            here = os.open(_MINE, os.O_RDONLY)
            weakref.finalize(self, os.close, here)
            #: The file of the namespace.
            self.path = f"/proc/{os.getpid()}/fd/{here}"
            self._here = here
            _run("ip link set lo up")
            _run("nft -f -", stdin=_RULES)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        with _coming_back():
            _libc("setns", self._here, _CLONE_NEWNET)
            yield

    def binary(self, server: ServerBinary, folder: Path) -> ServerBinary:
        """This server, but inside the namespace, whoever starts it."""
        program = folder / f"private-{self._here}-{server.path.name}"
        program.write_text(f'#!/bin/sh\nexec nsenter --net={self.path} -- "{server.path}" "$@"\n')
        program.chmod(0o755)
        return ServerBinary(program, server.flavour, server.version)

    def mend(self) -> None:
        with self.inside():
            _run("nft flush chain inet faults arriving")


class Host(PrivateNetwork):
    """A namespace with an address on a `Bridge`."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address

    def cut(self, *others: Host) -> None:
        """Packets from these hosts vanish. Packets to them arrive."""
        with self.inside():
            for other in others:
                _run(f"nft add rule inet faults arriving ip saddr {other.address} drop")


class Bridge(PrivateNetwork):
    """The network that joins hosts. A test lives in it, and no host is cut off from it."""

    def __init__(self) -> None:
        super().__init__()
        with self.inside():
            _run("ip link add name bridge type bridge")
            _run("ip addr add 10.0.0.1/24 dev bridge")
            _run("ip link set bridge up")
        self.hosts: list[Host] = []

    def host(self) -> Host:
        """Join a new host."""
        number = len(self.hosts) + 2
        host = Host(f"10.0.0.{number}")
        with self.inside():
            _run(f"ip link add name host{number} type veth peer name eth netns {host.path}")
            _run(f"ip link set host{number} master bridge up")
        with host.inside():
            _run(f"ip addr add {host.address}/24 dev eth")
            _run("ip link set eth up")
        self.hosts.append(host)
        return host

    def mend(self) -> None:
        """Let all packets through."""
        for host in self.hosts:
            host.mend()


@contextlib.contextmanager
def _coming_back() -> Iterator[None]:
    """The calling thread has its network again afterwards."""
    home = os.open(_MINE, os.O_RDONLY)
    try:
        yield
    finally:
        _libc("setns", home, _CLONE_NEWNET)
        os.close(home)


def _run(command: str, stdin: str = "") -> None:
    subprocess.run(command.split(), input=stdin, check=True, capture_output=True, text=True)


def _libc(function: str, *arguments: int) -> None:
    # os.unshare and os.setns came with Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
