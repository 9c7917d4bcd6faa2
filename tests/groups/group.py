"""A primary, its replicas and the Sentinels that watch them, as real servers."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import redis

from rlock.testing.local.embedded import Master, ServerBinary

from ..lock.conftest import eventually
from ..servers import PASSWORD, raw

SERVICE = "mymaster"
#: Replicas and Sentinels log in as these users, so a server can refuse them and still serve clients.
REPLICA, SENTINEL = "replica", "sentinel"
#: A replica is synchronized at once, and asks for its primary once a second.
ARGUMENTS = (
    *f"--masteruser {REPLICA} --masterauth {PASSWORD} --repl-diskless-sync yes".split(),
    *("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"),
    *f"--user {REPLICA} on >{PASSWORD} ~* &* +@all".split(),
    *f"--user {SENTINEL} on >{PASSWORD} ~* &* +@all".split(),
)
SENTINEL_ARGUMENTS = ("--sentinel", "--protected-mode", "no")
#: After so long without an answer a Sentinel calls a server down. In less than a second it does not connect.
OPTIONS = {
    "down-after-milliseconds": 1200,
    "failover-timeout": 1500,
    "parallel-syncs": 5,
    "auth-user": SENTINEL,
    "auth-pass": PASSWORD,
}
PATIENCE_S = 20.0  # how long a change of the group may take on a loaded machine


def until(done: Callable[[], object], what: str) -> None:
    """Wait for a state of the servers."""

    def answered() -> Any:
        with contextlib.suppress(redis.RedisError):
            return done()

    assert eventually(answered, PATIENCE_S), f"not within {PATIENCE_S:g} s: {what}"


class Server(Master):
    """A server of a group."""

    def __init__(self, binary: ServerBinary, args: Sequence[str] = ARGUMENTS) -> None:
        super().__init__(binary, args=args, password=PASSWORD)

    @property
    def client(self) -> redis.Redis:
        """A client that gives up soon and never tries again."""
        return raw(self.url, 2.0)

    def follow(self, primary: Server) -> None:
        """Make it a replica."""
        self.client.replicaof("127.0.0.1", primary.port)


class ReplicatedGroup(contextlib.ExitStack):
    """``replicas`` and a primary; ``sentinels`` watch them, none by default."""

    def __init__(
        self, binary: ServerBinary, replicas: int = 1, sentinels: int = 0, replica: ServerBinary | None = None
    ) -> None:
        super().__init__()
        with contextlib.ExitStack() as stack:

            def start(*how: Any) -> Server:
                server = Server(*how)
                stack.enter_context(server)
                return server

            self.servers = [start(each) for each in (binary, *[replica or binary] * replicas)]
            first, *others = self.servers
            for server in others:
                server.follow(first)
            until(lambda: len(self.replicas_of(first)) == replicas, "the replicas are online")
            self.sentinels = [start(binary, SENTINEL_ARGUMENTS) for _ in range(sentinels)]
            for sentinel in self.sentinels:
                sentinel.client.sentinel_monitor(SERVICE, "127.0.0.1", first.port, sentinels // 2 + 1)
                for option, value in OPTIONS.items():
                    sentinel.client.sentinel_set(SERVICE, option, value)
            until(lambda: all(map(self._knows_all, self.sentinels)), "the Sentinels know each other")
            self.push(stack.pop_all())

    @property
    def url(self) -> str:
        """The group by its Sentinels; without any, by the address of its first server."""
        return self.url_with(len(self.servers) - 1)

    def url_with(self, replicas: int) -> str:
        """The same with another number of replicas."""
        if not self.sentinels:
            return f"{self.servers[0].url}?replicas={replicas}"
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        options = f"replicas={replicas}&sentinel_password={PASSWORD}"
        return f"redis+sentinel://:{PASSWORD}@{hosts}/{SERVICE}?{options}"

    def replicas_of(self, server: Server) -> list[int]:
        """The ports of the replicas that follow a server."""
        found: Any = server.client.info("replication")
        slaves = [found[key] for key in found if re.fullmatch("slave[0-9]+", key)]
        return [slave["port"] for slave in slaves if slave["state"] == "online"]

    @property
    def primary(self) -> Server:
        """The server that the first Sentinel names; without any, the first server."""
        if not self.sentinels:
            return self.servers[0]
        asked = self.sentinels[0].client
        _, port = asked.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if server.port == int(port))

    def _knows_all(self, sentinel: Server) -> bool:
        """Whether a Sentinel knows the others and all replicas."""
        masters: Any = sentinel.client.sentinel_masters()
        known = [int(masters[SERVICE][key]) for key in ("num-other-sentinels", "num-slaves")]
        return known == [len(self.sentinels) - 1, len(self.servers) - 1]

    def fail_over(self) -> None:
        """Let the Sentinels promote a replica, and wait until they have."""
        before, asked = self.primary, self.sentinels[0].client

        def promoted() -> bool:  # a Sentinel gives up after its time-out, so it is asked again
            return self.primary is not before or not asked.execute_command("SENTINEL", "FAILOVER", SERVICE)

        until(promoted, "a replica is promoted")

    def shut_out(self, server: Server) -> None:
        """Cut a server off from replicas and Sentinels. Clients reach it as before."""
        for user in (REPLICA, SENTINEL):
            server.client.execute_command("ACL", "SETUSER", user, "off")
            server.client.execute_command("CLIENT", "KILL", "USER", user)

    def mend(self) -> None:
        """Let everything run, with the primary that the Sentinels name. It ends each `shut_out`."""
        for sentinel in self.sentinels:
            sentinel.resume()
        for server in self.servers:
            server.resume() if server.running else server.start()
            for user in (REPLICA, SENTINEL):
                server.client.execute_command("ACL", "SETUSER", user, "on")
        primary = self.primary
        others = [server for server in self.servers if server is not primary]
        for server in others:  # the Sentinels send the same commands, ten seconds later
            server.follow(primary)
            for kind in ("normal", "pubsub"):
                server.client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        until(lambda: len(self.replicas_of(self.primary)) == len(others), "the group is whole")
