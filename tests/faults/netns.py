"""A private network: a namespace with nothing in it but `lo`, so that no packet can leave the machine."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from rlock.testing.local.embedded import ServerBinary

_CLONE_NEWNET = 0x40000000
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
        with PrivateNetwork() as network:
            network.drop(7)
            network.reject(7)
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", "") or str(error)
        return f"no private network with a firewall here: {told.strip()}"
    return ""


class PrivateNetwork:
    """Inside ``with`` the calling thread, and what it starts, live in the namespace.

    Threads and processes that others start do not: give masters the `binary` of this network.
    """

    def __enter__(self) -> PrivateNetwork:
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _connect_options("unshare", _CLONE_NEWNET)
        except BaseException:
            os.close(self._home)
            raise
        try:
            self._here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            _run("ip", "link", "set", "lo", "up")
            _run("nft", "-f", "-", stdin=_RULES)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._here)
        self._leave()

    def _leave(self) -> None:
        _connect_options("setns", self._home, _CLONE_NEWNET)
        os.close(self._home)

    def binary(self, server: ServerBinary, folder: Path) -> ServerBinary:
        """This server, but inside the namespace, whoever starts it."""
        program = folder / f"private-{server.path.name}"
        namespace = f"/proc/{os.getpid()}/fd/{self._here}"
        program.write_text(f'#!/bin/sh\nexec nsenter --net={namespace} -- "{server.path}" "$@"\n')
        program.chmod(0o755)
        return ServerBinary(program, server.flavour, server.version)

    def drop(self, port: int) -> None:
        """Packets to this port vanish: a partition."""
        self._rule(f"tcp dport {port} drop")

    def drop_replies(self, port: int) -> None:
        """Requests arrive, replies vanish: a partition in one direction."""
        self._rule(f"tcp sport {port} drop")

    def reject(self, port: int) -> None:
        """Packets to this port are answered with a RST, those of live connections too."""
        self._rule(f"tcp dport {port} reject with tcp reset")

    def mend(self) -> None:
        _run("nft", "flush", "chain", "inet", "faults", "arriving")

    def _rule(self, rule: str) -> None:
        _run("nft", "add", "rule", "inet", "faults", "arriving", *rule.split())


def _run(*command: str, stdin: str = "") -> None:
    subprocess.run(command, input=stdin, check=True, capture_output=True, text=True)


def _connect_options(function: str, *arguments: int) -> None:
    # os.unshare and os.setns came with Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
