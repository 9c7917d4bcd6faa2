"""One master as a reader asks it, on a connection of its own.

Reads only, and little: a few commands for its health, and as much of a SCAN as fits into the time that the
look gives. The cursor goes on where the look before left it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import hiredis

from ..._client.handshake import connect_error
from ..._client.libraries import library_of
from ..._sync.connections import Endpoint
from ...rules import replies
from ...rules.keys import NOTE, is_owner
from . import info
from .names import lock_of, queues, waited_for

library = library_of(None)

#: Keys that a master looks at in one command: half a millisecond of its time.
PAGE = 1000
#: How long a setting of the master is taken for true.
SETTING_S = 30.0
#: How long to leave a master alone that gave no answer.
PAUSE_S = 1.0
#: Pings of one look; the fastest is the best measure of way and clock.
PINGS = 2


@dataclass
class Answer:
    """What a master said in one look."""

    fault: str | None = None
    latency: float | None = None
    told: dict[str, Any] = field(default_factory=dict)  # in the words of `MasterHealth`
    clock: float | None = None  # seconds that its clock is ahead of ours
    leader: str = ""  # the run_id of a group's primary
    locks: set[str] = field(default_factory=set)  # names that were found
    waited: set[str] = field(default_factory=set)  # names of queues that were found
    unlisted: str | None = None
    hidden: int = 0  # hashes that this user may not read
    passes: int = 0  # how often all of its keys were looked at, since the connection was made


class _Sweep:
    """A SCAN for keys of one kind."""

    def __init__(self, pattern: str, kind: str) -> None:
        self.words = ("MATCH", pattern, "COUNT", str(PAGE), "TYPE", kind)
        self.cursor = b"0"
        self.passes = 0


#: The only field of a hash. A client writes owners of less than a kilobyte, and strangers some of 64 MB.
_OWNER = "local o = redis.call('hkeys', KEYS[1]) return #o == 1 and #o[1] <= 1024 and o[1] or ''"


class MasterReader:
    """Reads one master; a pool of threads calls `look`, one call at a time."""

    def __init__(self, endpoint: Endpoint, pattern: str, timeout: float, known: Collection[str]) -> None:
        self._endpoint = endpoint
        self._pattern = pattern
        self._timeout = timeout
        self._known = known
        self._connection: Any = None
        self._sweeps: tuple[_Sweep, ...] = ()
        self._fsync: str | None = None
        self._fsync_at = 0.0
        self._failed_at = -PAUSE_S
        self._closing = False
        #: The last answer. Assigned, never changed: other threads read it.
        self.answer = Answer("not asked yet")
        #: It answered the last time, or was never asked: worth waiting for.
        self.promising = True

    def look(self, scan_s: float | None) -> None:
        """Look once, and put the result into `answer`. None: search for no names."""
        if self._connection is None and time.monotonic() - self._failed_at < PAUSE_S:
            return
        try:
            self.answer = self._again(scan_s)
            self.promising = True
            group = self.answer.told.get("group")
            if group is not None and not (group.votes and self.answer.leader):
                self.hang_up()  # another server may lead by now
        except Exception as error:  # whatever it is: this master gave no answer
            new = self._connection is None
            self.hang_up()
            self._failed_at = time.monotonic()
            late = isinstance(error, library.TimeoutError)
            why = connect_error(error, tls=self._endpoint.tls).fault.text
            if late and not (new and self._endpoint.tls):
                why = f"no answer within {self._timeout:g} s"
            self.answer, self.promising = Answer(why), False

    def close(self) -> None:
        """End a look that is under way soon. Any thread may call."""
        self._closing = True

    def hang_up(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    # -- one look ----------------------------------------------------------------------------------

    def _again(self, scan_s: float | None) -> Answer:
        """Look; on a new connection if the one from before has ended, by a restart or for being idle."""
        if self._connection is not None:
            try:
                return self._look(scan_s)
            except library.TimeoutError:
                raise
            except (library.ConnectionError, OSError):
                self.hang_up()
        return self._look(scan_s)

    def _look(self, scan_s: float | None) -> Answer:
        if self._connection is None:
            connection = self._endpoint.connection(self._timeout)
            connection.connect()
            self._connection = connection
            self._fsync, self._fsync_at = None, 0.0
            self._sweeps = (
                _Sweep(self._pattern, "hash"),
                *(_Sweep(pattern, "zset") for pattern in queues(self._pattern)),
            )
        answer = Answer()
        self._ping(answer)
        asked: list[tuple[str, ...]] = [("INFO",)]
        if time.monotonic() - self._fsync_at > SETTING_S or not self._fsync_at:
            asked.append(("CONFIG", "GET", "appendfsync"))
        told = self._ask(asked)
        if len(told) == 2:
            self._fsync, self._fsync_at = replies.setting(told[1]), time.monotonic()
        fields = replies.fields(told[0])
        answer.told = info.health(fields, self._fsync)
        if self._endpoint.replicas is not None:
            self._look_at_group(answer, fields, self._endpoint.replicas)
        # On the loopback of a laptop a page takes less than the clock can tell: one at least.
        until = time.monotonic() + (scan_s or 0.0)
        while scan_s is not None and not self._closing and self._scan(answer) and time.monotonic() < until:
            pass
        answer.passes = min(sweep.passes for sweep in self._sweeps)
        return answer

    def _look_at_group(self, answer: Answer, fields: dict[str, str], replicas: int) -> None:
        (note,) = self._ask([("GET", NOTE)])
        name = self._connection._sock.getpeername()
        leader = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
        group = info.group(fields, note, replicas, leader, answer.clock or 0.0)
        # Another server may have a copy of its disk: nothing of a group is durable.
        answer.told |= {"group": group, "durable": False}
        answer.leader = fields.get("run_id", "") if answer.told["role"] == "master" else ""

    def _ping(self, answer: Answer) -> None:
        # Not PING: TIME is among the least permissions of a user of the lock.
        for _ in range(PINGS):
            began, before = time.perf_counter(), time.time()
            (reply,) = self._ask([("TIME",)])
            took = time.perf_counter() - began
            if answer.latency is None or took < answer.latency:
                answer.latency = took
                told = info.time_of(reply)
                # Its clock was read about half-way.
                answer.clock = None if told is None else told - (before + took / 2)

    def _scan(self, answer: Answer) -> bool:
        """One page of each sweep; whether there is more that this look has not seen."""
        more = False
        for sweep in self._sweeps:
            (reply,) = self._ask([("SCAN", sweep.cursor.decode(), *sweep.words)])
            if isinstance(reply, Exception):
                answer.unlisted = str(reply)
                continue
            sweep.cursor, keys = reply
            if sweep is self._sweeps[0]:
                self._sift(keys, answer)
            else:
                names = (waited_for(key) for key in keys)
                answer.waited |= {name for name in names if name is not None}
            if sweep.cursor == b"0":
                sweep.passes += 1
            else:
                more = True
        return more

    def _sift(self, keys: Sequence[bytes], answer: Answer) -> None:
        """Of hashes those that are locks: one field, that looks like an owner token."""
        names = {name for key in keys if (name := lock_of(key)) is not None}
        answer.locks |= {name for name in names if name in self._known}
        # Their length first: a hash of somebody's with a million fields must not be sent to us.
        fresh = [name for name in names if name not in self._known]
        lengths = self._ask([("HLEN", name) for name in fresh])
        single = [name for name, length in zip(fresh, lengths, strict=True) if length == 1]
        fields = self._ask([("EVAL", _OWNER, "1", name) for name in single])
        for refused in (*lengths, *fields):
            if isinstance(refused, Exception) and _not_allowed(refused):
                answer.unlisted = str(refused)
            answer.hidden += isinstance(refused, Exception)
        for name, told in zip(single, fields, strict=True):
            if isinstance(told, bytes) and is_owner(replies.text(told)):
                answer.locks.add(name)

    def _ask(self, commands: Sequence[tuple[str, ...]]) -> list[Any]:
        connection = self._connection
        if not commands or connection is None:
            return []
        # Not pack_commands: it takes four times as long, and masters may hold a million hashes of others.
        packed = b"".join(hiredis.pack_command(words) for words in commands)  # type: ignore[arg-type]
        connection.send_packed_command([packed])
        return [self._reply(connection) for _ in commands]

    def _reply(self, connection: Any) -> Any:
        try:
            return connection.read_response()
        except library.AuthenticationError:
            raise
        except library.ResponseError as error:
            # One thing that this user may not ask takes a figure away, not the whole look.
            return error


def _not_allowed(error: Exception) -> bool:
    """Whether a command is refused to this user, not only a key of somebody else's."""
    return "to run the" in str(error) or "can't run this command" in str(error)
