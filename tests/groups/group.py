"""A primary, its replicas and the Sentinels that watch them, as real servers."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from rlock.testing.local.embedded import Master, ServerBinary
from rlock.testing.local.spawn import free_port, spawn

SERVICE = "mymaster"
#: After so long without an answer a Sentinel calls a server down. In less than a second it does not connect.
DOWN_AFTER_MS = 1200
#: Replicas and Sentinels log in as these users, so a server can refuse them and still serve clients.
REPLICA, SENTINEL, PASSWORD = "replica", "sentinel", "secret"
#: A replica is synchronized at once, and asks for its primary once a second.
ARGUMENTS = (
    *f"--masteruser {REPLICA} --masterauth {PASSWORD} --repl-diskless-sync yes".split(),
    *("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"),
    *f"--user {REPLICA} on >{PASSWORD} ~* &* +@all".split(),
    *f"--user {SENTINEL} on >{PASSWORD} ~* &* +@all".split(),
)
#: How long a change of the group may take on a loaded machine.
PATIENCE_S = 20.0


def ask(port: int, password: str | None = PASSWORD) -> redis.Redis:
    """A client that gives up soon and never tries again."""
    return redis.Redis(
        port=port,
        password=password,
        protocol=2,
        decode_responses=True,
        socket_timeout=2.0,
        retry=Retry(NoBackoff(), 0),
    )


def until(done: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for a state of the servers."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            if done():
                return
        except redis.RedisError:
            pass
        assert time.monotonic() < deadline, f"not within {patience_s:g} s: {what}"
        time.sleep(0.03)


class Sentinel:
    """One Sentinel, with its configuration in a directory of its own."""

    def __init__(self, binary: ServerBinary, primary: int, needed: int) -> None:
        self.port = free_port()
        self._binary = binary
        self._directory = Path(tempfile.mkdtemp(prefix="rlock-sentinel-"))
        self._config = self._directory / "sentinel.conf"
        self._config.write_text(
            f"port {self.port}\nbind 127.0.0.1\nlogfile {self._directory}/log\ndir {self._directory}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary} {needed}\n"
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout {SERVICE} 1500\nsentinel parallel-syncs {SERVICE} 5\n"
            f"sentinel auth-user {SERVICE} {SENTINEL}\nsentinel auth-pass {SERVICE} {PASSWORD}\n"
        )
        self.process: subprocess.Popen[bytes] = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [str(self._binary.path), str(self._config), "--sentinel"]
        with open(os.devnull, "wb") as nothing:
            return spawn(command, nothing.fileno(), self._directory)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


class ReplicatedGroup(contextlib.AbstractContextManager["ReplicatedGroup"]):
    """``replicas`` and a primary; ``sentinels`` watch them, none by default."""

    def __init__(self, binary: ServerBinary, replicas: int = 1, sentinels: int = 0) -> None:
        self.servers: list[Master] = []
        self.sentinels: list[Sentinel] = []
        try:
            for _ in range(replicas + 1):
                self.servers.append(Master(binary, args=ARGUMENTS, password=PASSWORD).start())
            first = self.servers[0].port
            for server in self.servers[1:]:
                ask(server.port).replicaof("127.0.0.1", first)
            until(lambda: len(self.replicas_of(self.servers[0])) == replicas, "the replicas are online")
            self.sentinels = [Sentinel(binary, first, sentinels // 2 + 1) for _ in range(sentinels)]
            self.await_sentinels()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The group by its Sentinels; without any, by the address of its first server."""
        return self.url_with(len(self.servers) - 1)

    def url_with(self, replicas: int) -> str:
        """The same with another number of replicas."""
        if not self.sentinels:
            return f"{self.servers[0].url}?replicas={replicas}"
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://:{PASSWORD}@{hosts}/{SERVICE}?replicas={replicas}"

    def replicas_of(self, server: Master) -> list[int]:
        """The ports of the replicas that follow a server."""
        found: Any = ask(server.port).info("replication")
        slaves = [found[key] for key in found if re.fullmatch("slave[0-9]+", key)]
        return [slave["port"] for slave in slaves if slave["state"] == "online"]

    @property
    def primary(self) -> Master:
        """The server that the first Sentinel names; without any, the first server."""
        if not self.sentinels:
            return self.servers[0]
        _, port = ask(self.sentinels[0].port, None).execute_command(
            "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE
        )
        return next(server for server in self.servers if server.port == int(port))

    @property
    def replicas(self) -> list[Master]:
        """The other servers."""
        primary = self.primary
        return [server for server in self.servers if server is not primary]

    def await_sentinels(self) -> None:
        """Wait until each Sentinel knows the others and all replicas."""

        def known(sentinel: Sentinel) -> bool:
            masters: Any = ask(sentinel.port, None).sentinel_masters()
            state = masters[SERVICE]
            others, slaves = len(self.sentinels) - 1, len(self.servers) - 1
            return int(state["num-other-sentinels"]) == others and int(state["num-slaves"]) == slaves

        until(lambda: all(map(known, self.sentinels)), "the Sentinels know each other")

    def whole(self) -> bool:
        """Whether the primary has all its replicas."""
        return len(self.replicas_of(self.primary)) == len(self.servers) - 1

    def fail_over(self) -> None:
        """Let the Sentinels promote a replica, and wait until they have."""
        before = self.primary
        until(
            lambda: ask(self.sentinels[0].port, None).execute_command("SENTINEL", "FAILOVER", SERVICE),
            "a Sentinel begins the failover",
        )
        until(lambda: self.primary is not before, "a replica is promoted")

    def promoted(self, old: Master) -> bool:
        """Whether another server than this one is a primary."""
        others = [server for server in self.servers if server is not old and server.running]
        return any(ask(server.port).role()[0] == "master" for server in others)

    def rejoin(self, server: Master) -> None:
        """Make a former primary a replica. The Sentinels send the same commands, ten seconds later."""
        client = ask(server.port)
        client.replicaof("127.0.0.1", self.primary.port)
        for kind in ("normal", "pubsub"):
            client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")

    def disconnect_some(self, server: Master, dice: Random) -> None:
        """End every second connection of clients to a server."""
        client: Any = ask(server.port)
        for each in client.client_list(_type="normal"):
            if dice.random() < 0.5 and each["name"] == "":
                client.client_kill_filter(_id=each["id"])

    def shut_out(self, server: Master) -> None:
        """Cut a server off from replicas and Sentinels. Clients reach it as before."""
        for user in (REPLICA, SENTINEL):
            ask(server.port).execute_command("ACL", "SETUSER", user, "off")
            ask(server.port).execute_command("CLIENT", "KILL", "USER", user)

    def let_in(self, server: Master) -> None:
        """End a `shut_out`."""
        for user in (REPLICA, SENTINEL):
            ask(server.port).execute_command("ACL", "SETUSER", user, "on")

    def mend(self) -> None:
        """Let everything run, with the primary that the Sentinels name."""
        for sentinel in self.sentinels:
            sentinel.resume()
        for server in self.servers:
            server.resume() if server.running else server.start()
            self.let_in(server)
        for server in self.replicas:
            self.rejoin(server)
        until(self.whole, "the group is whole")

    def close(self) -> None:
        for sentinel in self.sentinels:
            sentinel.close()
        for server in self.servers:
            server.close()

    def __exit__(self, *_: object) -> None:
        self.close()
