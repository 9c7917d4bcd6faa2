"""A model of one master: the scripts of lua/ on a dictionary, with a given clock.

evidence/simulation/test_model.py compares it with real servers. The model leaves out errors inside a script
(ACL, maxmemory), and our keys with a type that another program wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...rules.command_templates import Command
from ...rules.commands import UNFINISHED
from ...rules.keys import MAX_TOKEN, READERS, is_shared, writer_identity
from .keyspace import NOTE, Message
from .readers import Readers

Reply = list[Any]
#: Dead waiters that one release passes over, as in lua/release.lua.
PASSED_OVER = 200
_NOT_A_LOCK: Reply = [-2, b"", 0, -1]


class Master(Readers):
    """``time_us``: its wall clock."""

    def __init__(self, time_us: Callable[[], int]) -> None:
        super().__init__(time_us)
        #: INFO on a server: when it started, and whether it has lost nothing since.
        self.started_us, self.whole = time_us(), True
        self._scripts: dict[str, Callable[..., Reply]] = {
            "acquire": self._acquire,
            "release": self._release,
            "renew": self._renew,
            "status": self._status,
            "wait": self._wait,
            "heal": self._renew,
            "fence": self._fence,
            "confirm": self._confirm,
            "transfer": self._transfer,
            "handshake": self._handshake,
            "readers": self._readers,
        }

    def run(self, command: Command) -> tuple[Reply, list[Message]]:
        """The reply as hiredis would parse it, and the published messages."""
        _, _, numkeys, *rest = command.by_sha()
        count = int(numkeys)
        return self.call(command.script.name, rest[:count], rest[count:])

    def call(self, script: str, keys: Sequence[str], words: Sequence[str]) -> tuple[Reply, list[Message]]:
        """The same for a script by its name."""
        self._published = []
        self._us = self.time_us()
        reply = self._scripts[script](keys, *words)
        return reply, self._published

    # -- the scripts, each as its file reads -------------------------------------------------------------

    def _acquire(self, keys: Sequence[str], lease_ms: str, fence_ms: str, *words: str) -> Reply:
        *waiting, owner, proposal = words
        order, rank, queue_ms, waiter, ticket, channel = (*waiting, *[""] * (6 - len(waiting)))
        shared = order == "shared"
        keys, readers = (keys[:-1], keys[-1]) if shared else (keys, "")
        lock, queue, fence = keys[:3]
        note = self._note(keys, 3)
        fields = self._fields(lock)
        found = self._holder(lock) if fields == 1 else ("", 0)
        if fields not in (0, 1) or found is None:
            return [*_NOT_A_LOCK, 0, 0, 0, note, 0]
        holder, held = found
        far = abs(int(proposal) - self._us) > 1_000_000 and self._last(fence)[1] != owner
        time_us = self._us if far else 0
        if fields and holder == owner and not shared:
            self._pexpire(lock, lease_ms)
            token = self._stamp(fence, owner, proposal, fence_ms)
            return [1, owner.encode(), held, int(lease_ms), 0, time_us, token, note, 0]
        handed = holder != "" and waiter.startswith(f"{holder}|")
        first = self._first(queue) if not fields and order == "fair" else None
        if shared and (handed or not fields or holder == READERS):
            reading = holder == READERS
            again = not handed and self._reads(readers, owner)
            came = reading and self._reads(readers, _token(waiter))
            if not handed and not again and not came:
                first = self._ahead(queue, waiter, rank, ticket, channel if reading else "")
            if first is None:
                if handed:
                    del self.keys[lock]
                last = self._last(fence)[0]
                token = last or self._stamp(fence, owner, proposal, fence_ms)
                self._zrem(readers, _token(waiter))
                self._join(lock, queue, readers, owner, lease_ms, waiter)
                return [1, owner.encode(), 1, int(lease_ms), 0, 0 if last else time_us, token, note, 0]
        if handed or (not fields and first in (None, waiter)):
            token = self._stamp(fence, owner, proposal, fence_ms)
            self.keys.pop(lock, None)
            self._set(lock, owner, "1")
            self._pexpire(lock, lease_ms)
            self._zrem(queue, waiter)
            return [1, owner.encode(), 1, int(lease_ms), 0, time_us, token, note, 0]
        code, ttl_ms = (-1, self.pttl(lock)) if fields else (-3, 0)
        holder = holder or first or ""
        if waiter == "":
            return [code, holder.encode(), held, ttl_ms, 0, 0, 0, note, 0]
        time_us = self._us
        entry = self.find(queue)
        place = None if entry is None else entry.scores.get(waiter)
        if place is None or rank == "kept":
            place = float(ticket if 0 < int(ticket) < MAX_TOKEN else time_us)
            if entry is not None and rank == "last":
                if len(entry.scores) >= 20_000:
                    return [code, holder.encode(), held, ttl_ms, 0, time_us, 0, note, 0]
                latest = max(entry.scores.values())
                place = max(place, latest + 1) if latest + 1 < MAX_TOKEN else place
            self._zadd(queue, place, waiter)
        self._pexpire(queue, queue_ms)
        return [code, holder.encode(), held, ttl_ms, int(place), time_us, 0, note, len(self.line(queue))]

    def _release(self, keys: Sequence[str], channel: str, claim_ms: str, fence_ms: str, *words: str) -> Reply:
        *options, proposal, owner = words
        message, waiter, ban_ms, reader, *lease_ms = (*options, *("owner", "", "", "")[len(options) :])
        lock, queue, fence, _, readers = keys[:5]
        if ban_ms != "":
            self.write(keys[5], owner, ban_ms)
        if waiter != "":
            self._zrem(queue, waiter)
        fields = self._fields(lock)
        if fields < 0:
            return [*_NOT_A_LOCK, 0]
        holders = self.keys[lock].fields if fields else {}
        held = owner in holders or (waiter != "" and _token(waiter) in holders)
        if held:
            holders.pop(owner if owner in holders else _token(waiter))
            if not holders:
                del self.keys[lock]
        found = self._holder(lock) if fields == 1 and not held else None
        if fields and not held and found is None:
            return [*_NOT_A_LOCK, 0]
        code, reading, freed = 1 if held else 0, found is not None and found[0] == READERS, False
        if not held and is_shared(owner) and reader == "":
            code = self._remove_reader(readers, owner)
            self._zrem(readers, _token(waiter))
            self._drop_ended(readers)
            if reading and not self._expire_readers(lock, readers):
                del self.keys[lock]
                found, reading, freed = None, False, True
        if reading and code == 1:
            return [1, owner.encode(), 0, 0, 0]
        if found is not None and not (reading and waiter != "" and channel != "" and reader == ""):
            return [-1, found[0].encode(), found[1], self.pttl(lock), 0]
        if not held and code == 0 and not reading and not freed and owner != "":
            return [0, b"", 0, -2, 0]
        if channel == "":
            return [code, owner.encode(), 0, 0, 0]
        left, reads_on = PASSED_OVER, None
        if reader != "":
            last = self._last(fence)[0]
            token = last or self._stamp(fence, reader, proposal, fence_ms, anew=True)
            reads_on = [code, owner.encode(), 1, int(lease_ms[0]), token]
            self._add_reader(readers, reader, lease_ms[0])
            self._give(lock, READERS, lease_ms[0], "0")
            self._pexpire(readers, lease_ms[0])
            found, reading = (READERS, 0), True
        if reading and found is not None:
            reply = [-1, READERS.encode(), 0, self.pttl(lock), 0]
            head = self._first(queue)
            invited, left = self._invite(queue, readers, channel, owner, claim_ms, left)
            if head is not None and is_shared(head):
                self._expire_readers(lock, readers)
                reply[2:4] = [invited, 0]
            return reads_on or reply
        while claim_ms == "0" and left and (first := self._first(queue)) is not None:
            left -= 1
            if "|" in first and self._publish(f"{channel}|{first.rpartition('|')[2]}", "") > 0:
                break
            self._zrem(queue, first)
        while claim_ms != "0" and left and (first := self._first(queue)) is not None:
            if is_shared(first):
                invited, left = self._invite(queue, readers, channel, owner, claim_ms, left)
                if invited:
                    self._give(lock, READERS, claim_ms, "0")
                    self._expire_readers(lock, readers)
                    return [code, owner.encode(), invited, 0, 0]
                self.keys.pop(readers, None)
                continue
            left -= 1
            self._zrem(queue, first)
            if "|" not in first:
                continue
            grant = holder = _token(first)
            if self._is_evicted(queue, holder):
                self._publish(f"{channel}|{first.rpartition('|')[2]}", f"{holder} evicted")
                continue
            if left == PASSED_OVER - 1:
                token = self._stamp(fence, holder, proposal, fence_ms, anew=True)
                grant = f"{holder} {token} {self._us} {self.text(keys[3])}"
            self._give(lock, holder, claim_ms)
            told = self._publish(f"{channel}|{first.rpartition('|')[2]}", grant)
            if told > 0:
                return [code, owner.encode(), told, 0, 0]
            del self.keys[lock]
        if message == "owner" or not (message or left):
            message = owner
        told = self._publish(channel, message) if message else 0
        return [code, owner.encode(), told if left else UNFINISHED, 0, 0]

    def _is_evicted(self, queue: str, owner: str) -> bool:
        return self.find(f"{queue.removesuffix('queue')}evicted:{writer_identity(owner)}") is not None

    def _give(self, lock: str, holder: str, lease_ms: str, count: str = "1") -> None:
        self._set(lock, holder, count)
        self._pexpire(lock, lease_ms)

    def _renew(self, keys: Sequence[str], lease_ms: str, *leases: str) -> Reply:
        if leases[0].isdigit():
            return self._heal(keys, lease_ms, *leases)
        codes = []
        locks = len(leases) // 2
        if len(leases) % 2:
            self._zrem(keys[-1], leases[-1])
            keys = keys[:-1]
        for lock, owner, count in zip(keys[:locks], leases[::2], leases[1::2], strict=False):
            entry = self.find(lock)
            if entry is not None and entry.kind == "hash" and owner in entry.fields:
                entry.fields[owner] = count
                self._pexpire(lock, lease_ms)
                codes.append(1)
            else:
                codes.append(0 if entry is None else -1)
        return [leases[0].encode(), codes, self._note(keys, locks, lease_ms if 1 in codes else "")]

    def _confirm(self, keys: Sequence[str], lease_ms: str, token: str, owner: str) -> Reply:
        entry, code = self.find(keys[0]), -1
        if entry is None:
            code = 0
        elif entry.kind == "hash" and owner in entry.fields and self._last(keys[1]) == (int(token), owner):
            self._pexpire(keys[0], lease_ms)
            code = 1
        return [owner.encode(), [code], self._note(keys, 2)]

    def _transfer(self, keys: Sequence[str], count: str, mark: str, present: str, owner: str) -> Reply:
        lock, fence = keys[:2]
        note = self._note(keys, 2)
        fields = self._fields(lock)
        if fields == 0:
            return [0, b"", 0, -2, 0, 0, 0, note, 0]
        found = self._holder(lock) if fields == 1 else None
        if found is None:
            return [*_NOT_A_LOCK, 0, 0, 0, note, 0]
        holder, ttl_ms, stands = found[0], self.pttl(lock), found[0] == owner
        last = self._last(fence)[0]
        if holder == present:
            stands = mark == "" or last <= int(mark)
        if not stands:
            return [-1, holder.encode(), found[1], ttl_ms, 0, 0, last, note, 0]
        ttl_ms = max(ttl_ms, 1)
        self.keys.pop(lock)
        self._set(lock, owner, count)
        self._pexpire(lock, str(ttl_ms))
        return [1, owner.encode(), int(count), ttl_ms, 0, 0, last, note, 0]

    def _heal(self, keys: Sequence[str], lease_ms: str, fence_ms: str, *leases: str) -> Reply:
        codes = []
        locks = len(leases) // 3
        for i in range(locks):
            lock, fence, evicted = keys[3 * i : 3 * i + 3]
            owner, count, token = leases[3 * i : 3 * i + 3]
            entry = self.find(lock)
            if entry is not None and entry.kind == "hash" and owner in entry.fields:
                entry.fields[owner] = count
                self._pexpire(lock, lease_ms)
                codes.append(1)
            elif entry is not None or self.find(evicted) is not None:
                codes.append(-1)
            else:
                self._set(lock, owner, count)
                self._pexpire(lock, lease_ms)
                codes.append(2)
                if self._last(fence)[0] < int(token):
                    self._remember(fence, int(token), owner, fence_ms)
        return [leases[0].encode(), codes, self._note(keys, 3 * locks, lease_ms if {1, 2} & {*codes} else "")]

    def _fence(self, keys: Sequence[str], owner: str, token: str, fence_ms: str) -> Reply:
        last, given_to = self._last(keys[1])
        if len(keys) > 2:
            if last < int(token):
                self._remember(keys[1], int(token), owner, fence_ms)
            return [int(self._reads(keys[2], owner)), owner.encode(), 0, 0, int(token)]
        if last > int(token) or (last == int(token) and given_to != owner):
            return [-1, owner.encode(), 0, 0, last]
        if last < int(token):
            self._remember(keys[1], int(token), owner, fence_ms)
        entry = self.find(keys[0])
        holds = entry is not None and entry.kind == "hash" and owner in entry.fields
        return [1 if holds else 0, owner.encode(), 0, 0, int(token)]

    def _handshake(self, keys: Sequence[str], run_id: str, memory: str, known: str) -> Reply:
        text = self.text(keys[0])
        found = NOTE.match(text)
        since, longest = (int(found[2]), int(found[3])) if found is not None else (self._us, 0)
        head, mark, _ = (found[1] if found is not None else "").partition(":durable")
        life, _, first = head.partition("@")
        if since > self._us:
            first, since = first or str(since), self._us
        kind = ":durable" if memory == "durable" else ""
        if memory == "vouched":
            since = longest = 0
            first, mark = "", mark if life == run_id else ""
        elif found is None:
            mark = kind
        elif ("+" in life) > ("+" in run_id) or (longest and "+" not in life and "+" in run_id):
            return [1, text.encode(), 0, 0, self._us]
        elif memory == "unused":
            if text != known or not self.whole:
                return [1, text.encode(), 0, 0, self._us]
            since = min(since, self.started_us)
        elif run_id == "":
            return [1, text.encode(), 0, 0, self._us]
        elif run_id == life:
            mark = mark if memory == "unknown" else kind
        elif not (mark and kind):
            since, first, mark = self._us, "", kind
        text = f"{run_id}{first and '@'}{first}{mark} {since} {longest}"
        self.write(keys[0], text)
        return [1, text.encode(), 0, 0, self._us]

    def _status(self, keys: Sequence[str], last: str) -> Reply:
        if not keys:
            return [0, b"", 0, -2, 0, [], b""]
        lock, queue, *_ = keys
        note = self._note(keys, 2)
        fields = self._fields(lock)
        found = self._holder(lock) if fields == 1 else None
        if fields not in (0, 1) or (fields == 1 and found is None):
            return [*_NOT_A_LOCK, 0, [], note]
        line = self.line(queue)
        told = line if last == "-1" else line[: int(last) + 1]
        waiters = [word.encode() for member, score in told for word in (member, str(int(score)))]
        if found is None:
            return [0, b"", 0, -2, len(line), waiters, note]
        reply = [1, found[0].encode(), found[1], self.pttl(lock), len(line), waiters, note]
        return self._with_readers(reply, keys[3]) if len(keys) > 3 and found[0] == READERS else reply

    def _wait(self, keys: Sequence[str], queue_ms: str, *places: str) -> Reply:
        lock, queue, *readers = keys
        places, channel = (places[:-1], places[-1]) if len(places) % 2 else (places, "")
        fields = self._fields(lock)
        found = self._holder(lock) if fields == 1 else None
        if fields not in (0, 1) or (fields == 1 and found is None):
            return [*_NOT_A_LOCK, 0]
        joins = False
        for waiter, ticket in zip(places[::2], places[1::2], strict=True):
            reads = found is not None and found[0] == READERS and is_shared(waiter)
            if reads and self._reads(readers[0], _token(waiter)):
                joins = True
            elif found is None or not waiter.startswith(f"{found[0]}|"):
                self._zadd(queue, float(ticket), waiter)
                self._pexpire(queue, queue_ms)
        if found is None or (channel and found[0] == READERS and (joins or self._joins(queue, channel))):
            return [0, b"", 0, -2, self._us]
        return [1, found[0].encode(), found[1], self.pttl(lock), self._us]


def _token(place: str) -> str:
    return place.rpartition("|")[0]
