"""Local masters as child processes, for ``rlock up``, the demonstration, the tests and the benches.

What is promised: a server that was started here never outlives this process (on Linux not even when this
process is killed), no other process is ever signalled, and a temporary directory goes with its master.
What is not: durability. A master keeps its data in memory unless ``args`` say otherwise.

Standard library only. Objects are not thread-safe, but may be made, started and ended from any thread.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from .binaries import EmbeddedError, ServerBinary, find_server, find_servers, read_version
from .spawn import PORT_TRIES, clean, free_port, spawn
from .vouching import vouch_for

__all__ = ["EmbeddedError", "Master", "Masters", "ServerBinary", "Tls", "find_server", "find_servers"]

START_TIMEOUT_S = 15.0  # a loaded two-core machine that starts five servers at once needs about one
STOP_GRACE_S = 3.0  # between SIGTERM and SIGKILL


@dataclass(frozen=True)
class Tls:
    """Paths of a server certificate for 127.0.0.1, its key, and the authority that signed it."""

    cert: Path
    key: Path
    ca: Path


class _PortTakenError(Exception):
    """The server found its port in use."""


class Master:
    """One server on 127.0.0.1, empty, without persistence, in a directory of its own.

    ``port`` None picks a free one. ``args`` are appended to the server's command line and win over the
    defaults (``("--appendonly", "yes", "--appendfsync", "always")`` makes it durable). ``unixsocket``
    listens on a socket file and on no port. ``directory`` None is a temporary one, removed by ``close``.
    """

    def __init__(
        self,
        binary: ServerBinary | str | os.PathLike[str] | None = None,
        *,
        port: int | None = None,
        args: Sequence[str] = (),
        password: str | None = None,
        unixsocket: bool = False,
        directory: str | os.PathLike[str] | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.binary = _resolve(binary)
        self.args = tuple(args)
        self.password = password
        self.tls = tls
        self._wanted_port = port
        self.port = 0 if unixsocket else (port or free_port())
        self.directory = Path(directory or tempfile.mkdtemp(prefix="rlock-master-")).resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.socket_path = self.directory / "master.sock" if unixsocket else None
        self.log_path = self.directory / "server.log"
        self._log_from = 0
        self._settled = False  # whether others may know the port by now
        self._paused = False
        # A cell, so that the finalizer knows the process without keeping this object alive.
        self._cell: list[subprocess.Popen[bytes]] = []
        self._finalizer = weakref.finalize(  # also runs when the interpreter exits
            self, clean, self._cell, None if directory else str(self.directory), os.getpid()
        )

    @property
    def url(self) -> str:
        """What ``rlock.Client`` takes; it holds the password, if there is one."""
        auth = f":{quote(self.password, safe='')}@" if self.password else ""
        if self.socket_path is not None:
            return f"unix://{auth}{self.socket_path}"
        if self.tls is not None:
            return f"rediss://{auth}127.0.0.1:{self.port}?ssl_ca_certs={quote(str(self.tls.ca))}"
        return f"redis://{auth}127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The server's process id; None when it does not run."""
        return self._cell[0].pid if self.running else None

    @property
    def running(self) -> bool:
        """Whether the process lives; a paused one does."""
        return bool(self._cell) and self._cell[0].poll() is None

    def start(self) -> Master:
        """Start the server and return when it answers; nothing to do if it runs.

        Raises ``EmbeddedError`` with the end of the server's log when it does not answer in 15 seconds.
        """
        if self._launch():
            self._await_ready()
        return self

    def stop(self) -> None:
        """End the server as an administrator would: SIGTERM, and SIGKILL after three seconds."""
        if self._ask_to_end():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._cell[0].wait(STOP_GRACE_S)
        self.kill()

    def kill(self) -> None:
        """End the server as a crash would, and return when its socket is gone."""
        self._paused = False
        if self._cell:
            process = self._cell.pop()
            process.kill()
            process.wait()

    def pause(self) -> None:
        """Freeze the server (SIGSTOP) and return when it is frozen; connections to it stay open."""
        process = self._running_process("pause")
        process.send_signal(signal.SIGSTOP)
        self._paused = True
        # SIGSTOP is delivered later: without this wait a command sent now might still be answered.
        deadline = time.monotonic() + 1.0
        while hasattr(os, "waitid") and time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                if os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG) is not None:
                    return
            time.sleep(0.001)

    def resume(self) -> None:
        """Let a frozen server go on; it executes what its sockets have buffered meanwhile."""
        self._running_process("resume").send_signal(signal.SIGCONT)
        self._paused = False

    def restart(self, empty: bool = True) -> Master:
        """Stop the server if it runs and start it on the same address.

        ``empty`` removes what it wrote to its directory; otherwise it loads what ``args`` made it keep.
        """
        self.stop()
        if empty:
            for pattern in ("*.rdb", "*.aof"):
                for path in self.directory.glob(pattern):
                    path.unlink()
            shutil.rmtree(self.directory / "appendonlydir", ignore_errors=True)
        return self.start()

    def close(self) -> None:
        """Stop the server and remove its temporary directory. May be called twice."""
        self.stop()
        self._finalizer()

    def __enter__(self) -> Master:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Master {self.binary} {self.url.rpartition('@')[2]} pid={self.pid}>"

    def _ask_to_end(self) -> bool:
        if not self.running or self._paused:  # a stopped process would sit on the SIGTERM
            return False
        self._cell[0].terminate()
        return True

    def _running_process(self, verb: str) -> subprocess.Popen[bytes]:
        if not self.running:
            raise EmbeddedError(f"cannot {verb} a master that does not run: {self!r}", self._log_tail())
        return self._cell[0]

    def _launch(self) -> bool:
        """Start the process; False if it runs already."""
        if self.running:
            return False
        self._cell.clear()
        self._paused = False
        if self.socket_path is not None and len(os.fsencode(self.socket_path)) > 103:
            raise EmbeddedError(f"too long for the path of a unix socket: {self.socket_path}")
        command = [str(self.binary.path), str(self._write_config()), *self.args]
        with self.log_path.open("ab") as log:
            self._log_from = log.tell()
            try:
                self._cell.append(spawn(command, log.fileno(), self.directory))
            except OSError as error:
                raise EmbeddedError(f"cannot start {self.binary.path}: {error}") from error
        return True

    def _write_config(self) -> Path:
        """A file, not arguments: every user of the machine can read a command line, with its password."""
        settings = {"bind": "127.0.0.1", "port": str(self.port), "save": "", "appendonly": "no"}
        settings |= {"dir": str(self.directory), "logfile": "", "daemonize": "no"}
        if self.password:
            settings["requirepass"] = self.password
        if self.socket_path is not None:
            settings |= {"unixsocket": str(self.socket_path), "unixsocketperm": "700"}
        if self.tls is not None:
            settings |= {"port": "0", "tls-port": str(self.port), "tls-auth-clients": "no"}
            settings |= {f"tls-{part}-file": str(getattr(self.tls, part)) for part in ("cert", "key")}
            settings["tls-ca-cert-file"] = str(self.tls.ca)
        path = self.directory / "server.conf"
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.writelines(f"{key} {_quoted(value)}\n" for key, value in settings.items())
        return path

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        tries = PORT_TRIES
        while not self._answers():
            if not self.running:
                log = self._log_tail()
                self.kill()
                taken = "Address already in use" in log and self.socket_path is None
                tries -= 1
                if taken and tries > 0 and time.monotonic() < deadline:
                    if self._wanted_port is None and not self._settled:
                        self.port = free_port()  # somebody was faster between our look and the server's
                    else:
                        # A port that the caller chose, or that others know as this master's: wait for
                        # whoever has it, for example an outgoing connection, but do not wander off.
                        time.sleep(0.1)
                    self._launch()
                    continue
                raise EmbeddedError(self._why(log), log)
            if time.monotonic() > deadline:
                self.kill()
                raise EmbeddedError(f"{self!r} did not answer in {START_TIMEOUT_S:g} s", self._log_tail())
            time.sleep(0.005)
        self._settled = True

    def _why(self, log: str) -> str:
        if self.tls is not None and re.search(r"tls-port|TLS support", log):
            return f"{self.binary} at {self.binary.path} was built without TLS: use another server for it"
        return f"{self.binary} at {self.binary.path} did not start on port {self.port}"

    def _log_tail(self, lines: int = 15) -> str:
        try:
            with self.log_path.open("rb") as log:
                log.seek(self._log_from)
                text = log.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def _answers(self) -> bool:
        """One PING; True only if the answer comes from the process that was started here."""
        try:
            with self._connect() as connection, connection.makefile("rwb") as stream:
                if self.password:
                    secret = self.password.encode()
                    stream.write(b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%b\r\n" % (len(secret), secret))
                stream.write(b"PING\r\nINFO server\r\n")
                stream.flush()
                if self.password:
                    stream.readline()
                pong, head = stream.readline(), stream.readline()
                if head.startswith(b"$"):
                    told = re.search(rb"^process_id:(\d+)", stream.read(int(head[1:])), re.MULTILINE)
                    if told and int(told[1]) != self.pid:
                        return False  # another server took the port; ours will say so and exit
                # NOAUTH: a password set through args. LOADING is not ready.
                return pong.startswith((b"+PONG", b"-NOAUTH", b"-NOPERM")) and self.running
        except (OSError, ValueError):
            return False

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX if self.socket_path else socket.AF_INET)
        try:
            connection.settimeout(1.0)
            connection.connect(str(self.socket_path) if self.socket_path else ("127.0.0.1", self.port))
            if self.tls is None:
                return connection
            context = ssl.create_default_context(cafile=str(self.tls.ca))
            return context.wrap_socket(connection, server_hostname="127.0.0.1")
        except BaseException:
            connection.close()
            raise


class Masters:
    """``count`` masters, started side by side as the object is made; if one fails, all are ended.

    ``ports`` and ``directory`` are optional: one port for each, and one parent of their directories.
    """

    def __init__(
        self,
        count: int,
        binary: ServerBinary | str | os.PathLike[str] | None = None,
        *,
        ports: Sequence[int] = (),
        args: Sequence[str] = (),
        password: str | None = None,
        unixsocket: bool = False,
        directory: str | os.PathLike[str] | None = None,
        tls: Tls | None = None,
    ) -> None:
        if count < 1 or (ports and len(ports) != count):
            raise EmbeddedError(f"cannot start {count} masters on {len(ports)} ports")
        binary = _resolve(binary)
        self._masters: list[Master] = []
        try:
            for index in range(count):
                self._masters.append(
                    Master(
                        binary,
                        port=ports[index] if ports else None,
                        args=args,
                        password=password,
                        unixsocket=unixsocket,
                        directory=Path(directory, f"master-{index + 1}") if directory else None,
                        tls=tls,
                    )
                )
            self.start()
            if directory is None:
                vouch_for(self.urls)  # they have nothing to have forgotten: no restart guard for them
        except BaseException:
            self.close()
            raise

    @property
    def urls(self) -> list[str]:
        """The addresses, in order; ``rlock.Client(masters.urls)``."""
        return [master.url for master in self._masters]

    def environment_line(self) -> str:
        """The line that ``rlock.Client.from_env`` understands. It holds the password, if there is one."""
        return "RLOCK_MASTERS=" + ",".join(self.urls)

    def start(self) -> Masters:
        """Start those that do not run. Raises ``EmbeddedError`` for the first that does not answer."""
        for master in [master for master in self._masters if master._launch()]:
            master._await_ready()
        return self

    def close(self) -> None:
        """End them all and remove their temporary directories. May be called twice."""
        for master in self._masters:
            master._ask_to_end()  # all at once: each takes a tenth of a second to say good-bye
        for master in self._masters:
            master.close()

    def __len__(self) -> int:
        return len(self._masters)

    def __iter__(self) -> Iterator[Master]:
        return iter(self._masters)

    def __getitem__(self, index: int) -> Master:
        return self._masters[index]

    def __enter__(self) -> Masters:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _resolve(binary: ServerBinary | str | os.PathLike[str] | None) -> ServerBinary:
    if binary is None:
        return find_server()
    return binary if isinstance(binary, ServerBinary) else read_version(binary)


def _quoted(value: str) -> str:
    """One argument of a server's configuration file, whatever it holds: a quote, a space, a newline."""
    plain = {byte: chr(byte) for byte in range(33, 127) if byte not in b'"\\'}
    return '"' + "".join(plain.get(byte, f"\\x{byte:02x}") for byte in value.encode()) + '"'
