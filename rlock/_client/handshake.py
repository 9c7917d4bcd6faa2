"""Handshake: what a new connection learns about its server before the first command."""

# Imported early: without a free descriptor the import fails, and Python remembers no such encoding.
import encodings.idna  # noqa: F401
import inspect
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from ..events import log
from ..model import Fault, FaultKind
from ..procedures.port import WaitGenerator
from ..rules import commands, replies, scripts
from ..rules.restart_guard import MemoryReport
from .libraries import errors

MIN_CONNECT_S = 0.25  # the shortest time-out of TCP's connect: enough for a master on another continent
LONGEST_ANSWER = 16  # an array with more items answers no question of a handshake: CONFIG GET has two
NO_TLS = "does this port speak TLS, as the URL says (rediss://)?"

_SERVER_QUESTIONS = ["CLIENT ID", "INFO server", "INFO replication", "INFO memory"]
_DURABILITY_QUESTIONS = ["INFO persistence", "CONFIG GET appendfsync", "CONFIG GET no-appendfsync-on-rewrite"]


class ConnectError(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class ConnectOptions(NamedTuple):
    timeout: float  # seconds for each step
    request_timeout: float = 1.0
    #: Connections to end first, as (run_id, client id): a stopped server could run their last commands.
    kill: Sequence[tuple[str, int]] = ()
    subscriber: bool = False
    guarded: bool = True  # whether the restart guard is on
    began_at: float = 0.0  # by the client's clock
    replicas: int | None = None  # that the group of this master has; None: it is no group

    @property
    def connect_timeout(self) -> float:
        """Seconds for TCP's connect. Linux repeats a lost SYN after a second, so a new attempt is faster."""
        return min(self.timeout, max(self.request_timeout, MIN_CONNECT_S))


#: A lease under the plain URL keeps a master from becoming a group: a mistaken client must not stop a fleet.
GROUP = "it is used as a group: name it with ?replicas=, or DEL rlock:fleet if it is none any more"
NO_GROUP = "it is used without ?replicas=: leave that out, or DEL rlock:fleet while nothing is locked"

#: Writes commands and returns their replies, with an exception in place of a refused one.
Exchange = Callable[[Sequence[tuple[str, ...]]], WaitGenerator[list[Any]]]


class HandshakeResult(NamedTuple):
    memory_report: MemoryReport = MemoryReport()
    connection_id: int = 0  # the server's number for this connection; 0: not known


def connect(endpoint: Any, options: ConnectOptions) -> WaitGenerator[Any]:
    """A connection after its handshake. Raises `ConnectError`."""
    made = endpoint.connection(options.timeout, options.connect_timeout)
    try:
        yield from settled(made.connect())
        result = yield from handshake(endpoint.label, options, partial(_exchange, made))
        return endpoint.connection_type(made, result)
    except BaseException as error:
        endpoint.abort(made)
        if isinstance(error, ConnectError) or not isinstance(error, Exception):
            raise
        raise connect_error(error, tls=endpoint.tls) from None


def handshake(label: str, options: ConnectOptions, exchange: Exchange) -> WaitGenerator[HandshakeResult]:
    """Learn what kind of server this is. Raises `ConnectError` if it is not a master."""
    if options.subscriber and options.replicas is None:
        return HandshakeResult()
    if options.kill:
        # Only if the run_id is the same: after a restart other clients have these numbers.
        (server,) = yield from exchange([("INFO", "server")])
        run_id = _field(server, "run_id")
        kills = [("CLIENT", "KILL", "ID", str(number)) for life, number in options.kill if life == run_id]
        if kills:
            yield from exchange(kills)
    asked = _SERVER_QUESTIONS + (_DURABILITY_QUESTIONS if options.guarded else [])
    questions = [tuple(question.split()) for question in asked]
    loads = [("SCRIPT", "LOAD", script.source) for script in scripts.ALL]
    answers = yield from exchange([*questions, *loads])
    connection_id, server, replication, memory, *persistence = answers[: len(questions)]
    if isinstance(server, Exception) and "NOAUTH" in str(server):
        raise ConnectError(Fault(FaultKind.DENIED, str(server)))
    if "cluster" in (_field(server, "redis_mode"), _field(server, "server_mode")):
        text = "it is a node of a Cluster: a slot can move to a server that lacks its last leases"
        raise ConnectError(Fault(FaultKind.REPLICA, text))
    if options.replicas is not None:
        _check_group(replication, options.replicas)
    elif _field(replication, "role") in ("slave", "replica"):
        raise ConnectError(Fault(FaultKind.REPLICA, "it is a replica: name its master, or promote it"))
    _check_eviction(label, _field(memory, "maxmemory_policy")[:20])
    durable = options.guarded and is_durable(replication, *persistence)
    report = MemoryReport(_field(server, "run_id"), "durable" if durable else "volatile")
    if options.replicas is not None:
        # A server that was a replica in between has the same run_id, and perhaps an older memory.
        report = report.of_group(_field(replication, "master_replid"))
    if options.guarded:
        # The first script on this connection: the master compares its note with this run_id.
        (reply,) = yield from exchange([commands.handshake(report.run_id, report.memory).by_source()])
        vote = replies.decode_handshake(reply)
        if vote.note is not None:
            if ("+" in vote.note) != (options.replicas is not None):
                raise ConnectError(Fault(FaultKind.REPLICA, GROUP if options.replicas is None else NO_GROUP))
            report = report._replace(note=vote.note, time_us=vote.time_us)
    return HandshakeResult(report, connection_id if isinstance(connection_id, int) else 0)


def _check_group(replication: Any, replicas: int) -> None:
    """Refuse a server that is no primary, or that has more replicas than are configured.

    One with fewer is not refused: after a failover its memory grows older while the replicas come back.
    """
    kind, role = FaultKind.UNREPLICATED, _field(replication, "role")
    found = len(replies.online(replies.fields(replication)))
    if not role:
        kind, text = FaultKind.DENIED, "in a group this user has to run INFO: grant +info"
    elif role != "master":
        text = "a replica answers at the address of the primary"
    elif not _field(replication, "master_replid"):
        text = "it tells no master_replid, so a failover cannot be seen"
    elif found > replicas > 0:
        text = f"{found} replicas are connected, and replicas={replicas} is set: set replicas={found}"
    else:
        return
    raise ConnectError(Fault(kind, text))


def settled(result: Any) -> WaitGenerator[Any]:
    """The result of a call of a library: in tasks it has to be awaited."""
    return (yield from result.__await__()) if inspect.isawaitable(result) else result


def _exchange(connection: Any, commands: Sequence[tuple[str, ...]]) -> WaitGenerator[list[Any]]:
    yield from settled(connection.send_packed_command(connection.pack_commands(commands)))
    found: list[Any] = []
    for _ in commands:
        try:
            found.append((yield from settled(connection.read_response())))
            # At once: each of the rest may be as long.
            if isinstance(found[-1], list) and len(found[-1]) > LONGEST_ANSWER:
                text = f"an answer that nobody asked for: an array of {len(found[-1])} items"
                raise ConnectError(Fault(FaultKind.DOWN, text))
        except errors("AuthenticationError"):
            raise
        except errors("ResponseError") as error:
            # Without a permission (INFO, CLIENT KILL, SCRIPT LOAD) only a check is missing, not the lock.
            found.append(error)
    return found


def connect_error(error: Exception, *, tls: bool = False) -> ConnectError:
    if isinstance(error, errors("AuthenticationError", "AuthorizationError", "NoPermissionError")):
        return ConnectError(Fault(FaultKind.DENIED, str(error)))
    if isinstance(error, errors("ResponseError")):
        return ConnectError(replies.fault(error))
    text, reason = str(error) or type(error).__name__, error.__context__
    if isinstance(reason, (ConnectionResetError, BrokenPipeError)):
        # One text for both: which of the two comes is chance, and each new text is a new line in the log.
        text = (
            "it ended the connection before it answered: protected mode, too many clients, a proxy, or "
            "missing TLS? `rlock doctor` tells"
        )
    elif isinstance(reason, OSError) and reason.strerror and reason.strerror not in text:
        # redis.asyncio before 5.1 says "Error 1 connecting to host:6379. 1." of every certificate.
        text = f"{text} {reason.strerror}"
    if tls and isinstance(error, (TimeoutError, *errors("TimeoutError"))):
        text = f"{text}; {NO_TLS}"
    return ConnectError(Fault(FaultKind.DOWN, text))


def is_durable(replication: Any, persistence: Any, appendfsync: Any, no_appendfsync_on_rewrite: Any) -> bool:
    """Whether a restart loses no acknowledged write. A refused question counts as no."""
    return (
        _field(persistence, "aof_enabled") == "1"
        and replies.setting(appendfsync) == "always"
        # With `yes` the server syncs nothing while it rewrites the file.
        and replies.setting(no_appendfsync_on_rewrite) == "no"
        # A promoted replica lacks the last writes of its primary.
        and bool(_field(replication, "master_replid2"))
        and not _field(replication, "master_replid2").strip("0")
    )


def _field(info: Any, name: str) -> str:
    return replies.fields(info).get(name, "")


@lru_cache(maxsize=256)  # it warns once
def _check_eviction(label: str, policy: str) -> None:
    if re.fullmatch("(allkeys|volatile)-[a-z]{1,9}", policy):
        log.warning(
            "%s has maxmemory-policy %s: under memory pressure it throws held locks away silently; "
            "set it to noeviction",
            label,
            policy,
        )
