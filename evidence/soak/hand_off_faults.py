"""Faults of hand-offs: their bytes come late, and those who wait are stopped, while others are in between.

A release hands the lock to the first waiter of each master for the claim time. Each fault takes a holder with
votes of a bare quorum, whose successor is known.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import redis

from rlock.procedures.port import new_owner
from rlock.rules import keys
from rlock.rules.timing import CLAIM_S, POLL_CAP_S

from .field import Field, fault
from .fleet import PlaceProxy
from .master_faults import GHOST

#: The owner and the first waiter of each lock.
_LOOK = """
local found = {}
for i = 1, #KEYS, 2 do
    found[i] = redis.call('hkeys', KEYS[i])[1] or ''
    found[i + 1] = redis.call('zrange', KEYS[i + 1], 0, 0)[1] or ''
end
return found
"""
_GHOST = new_owner(GHOST[:-1])
#: A vote of a contender that is dead.
_HAUNT = """
redis.call('hdel', KEYS[1], ARGV[3])
if redis.call('exists', KEYS[1]) == 0 then
    redis.call('hset', KEYS[1], ARGV[1], 1)
end
return redis.call('hexists', KEYS[1], ARGV[1]) == 1 and redis.call('pexpire', KEYS[1], ARGV[2])
"""
#: How long a holder may be looked for, and how long it may keep the lock then.
CATCH_S, RELEASE_S = 2.0, 0.8
#: How long bytes may be kept then: less than a lease.
LATE_S = 1.3 * CLAIM_S
#: Older holders are mostly those that keep the lock for long.
FRESH_S = 0.02


@dataclass
class _HandOff:
    """A holder that is stopped, and the first waiter."""

    on: Field
    #: The masters whose commands are prompt, and late; the late ones and the prompt one are a bare quorum.
    prompt: int
    late: list[int]
    #: Masters that have not heard of the holder, as if its requests had been lost.
    absent: list[int]
    masters: list[Any]
    place: int = 0  # of the holder
    name: str = ""
    owner: str = ""
    queued: str = ""  # the waiter, as it stands in the queue
    #: The owner that has had a quorum since.
    other: str = ""
    held: list[PlaceProxy] = field(default_factory=list)
    seen: dict[str, float] = field(default_factory=dict)

    @property
    def waiter(self) -> str:
        """The owner that the first waiter will be."""
        return keys.token_of(self.queued)

    def hold(self, masters: list[int], place: int) -> None:
        """Keep the requests from a place to these masters."""
        for i in masters:
            self.held.append(proxy := self.on.fleet.proxies[i][place])
            proxy.hold(replies=False, of="commands")

    def let_go(self) -> None:
        """Deliver the requests that were kept, in their order, except those to the absent masters."""
        while len(self.held) > len(self.absent):
            self.held.pop(len(self.absent)).let_go()

    def catch(self) -> bool:
        """Stop a process that has just got a lock for which another one waits."""
        names, now = self.on.names, time.monotonic()
        around = [key for name in names for key in (name, keys.queue(name))]
        told: list[str] = self.masters[self.prompt].eval(_LOOK, len(around), *around)
        for name, owner, waiter in zip(names, told[::2], told[1::2], strict=True):
            place = self.on.crew.place(_pid(owner))
            if not waiter or place is None or now > self.seen.setdefault(owner, now) + FRESH_S:
                continue
            self.place, self.name, self.owner, self.queued = place, name, owner, waiter
            self.on.crew.send(_pid(owner), signal.SIGSTOP)
            if self.suits():
                self.hold(self.absent, place)
                if self.until(self.haunt, 0.05):
                    return True
                while self.held:
                    self.held.pop().let_go()
            self.on.crew.send(_pid(owner), signal.SIGCONT)
        return False

    def suits(self) -> bool:
        """Whether the masters agree who is next, and whether another one waits behind."""
        has = {i for i in range(len(self.masters)) if self.holder(i) == self.owner}
        queues = [master.zrange(keys.queue(self.name), 0, -1) for master in self.masters]
        others = {_pid(waiter) for queue in queues for waiter in queue} - {_pid(self.waiter)}
        return (
            has >= {self.prompt, *self.late}
            and all(queues[i][:1] == [self.queued] for i in (self.prompt, *self.late))
            and bool(others)
            # A waiter that has tried again takes no lock by messages.
            and time.time() - (keys.since(self.waiter) or 0.0) < POLL_CAP_S
            and _pid(self.owner) not in {*others, _pid(self.waiter)}
        )

    def haunt(self) -> bool:
        """Keep others from the absent masters, by a dead contender's vote that ends with the prompt one's.

        The waiter has no place there, or everybody who finds the lock free would hand it on to him.
        """
        for i in self.absent:
            self.masters[i].zrem(keys.queue(self.name), self.queued)
        lease = max(1, self.masters[self.prompt].pttl(self.name))
        haunt = (_HAUNT, 1, self.name, _GHOST, lease, self.owner)
        return all(self.masters[i].eval(*haunt) for i in self.absent)

    def holder(self, i: int) -> str:
        return next(iter(self.masters[i].hkeys(self.name)), "")

    def another(self) -> bool:
        """Whether another one has the lock, by votes of the prompt and the absent masters."""
        owners = {self.holder(i) for i in (self.prompt, *self.absent)}
        if len(owners) == 1 and not owners & {"", _GHOST, self.waiter, self.owner}:
            self.other = owners.pop()
        return bool(self.other)

    def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Whether it was so in time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.on.over.is_set():
            with contextlib.suppress(redis.RedisError):  # a master is down
                if done():
                    return True
            time.sleep(0.0005)
        return False


def _pid(owner: str) -> int:
    words = owner.split("/")
    return int(words[1]) if len(words) > 2 else 0


@contextmanager
def _hand_off(on: Field, dice: Random) -> Iterator[_HandOff | None]:
    count = len(on.fleet)
    order = dice.sample(range(count), count)
    few = (count - 1) // 2
    # A master may be down: then there is no such hand-off.
    with contextlib.suppress(redis.RedisError), contextlib.ExitStack() as stack:
        masters = [stack.enter_context(contextlib.closing(on.fleet.raw(i))) for i in range(count)]
        made = _HandOff(on, order[0], order[1 : count - few], order[count - few :], masters)
        try:
            yield made if made.until(made.catch, CATCH_S) else None
        finally:
            for owner in filter(None, (made.owner, made.waiter)):
                on.crew.send(_pid(owner), signal.SIGCONT)
            for proxy in made.held:
                proxy.let_go()


@fault("late-release")
def late_release(on: Field, dice: Random) -> None:
    """A release comes to all but one master after the claim time; the waiter is stopped meanwhile."""
    with _hand_off(on, dice) as made:
        if made is None:
            return
        on.note("late-release", f"{made.name} of {made.owner}")
        made.hold(made.late, made.place)
        on.crew.send(_pid(made.waiter), signal.SIGSTOP)
        on.crew.send(_pid(made.owner), signal.SIGCONT)
        if made.until(lambda: made.holder(made.prompt) != made.owner, RELEASE_S):
            made.haunt()
            if made.until(made.another, LATE_S):
                for i in made.absent:  # the waiter's request comes late
                    made.masters[i].zadd(keys.queue(made.name), {made.queued: 0})
                made.until(lambda: {*map(made.holder, made.absent)} == {made.waiter}, LATE_S)
        made.let_go()
        on.rest(dice.uniform(0.01, 0.1))


@fault("late-confirmation")
def late_confirmation(on: Field, dice: Random) -> None:
    """A waiter has the lock by messages, and is stopped; a master gets its confirmation behind another owner.

    Often tokens are ahead of the clocks, as after clocks were set back, and some are not written everywhere.
    """
    everywhere = range(len(on.fleet))
    with _hand_off(on, dice) as made, on.fleet.claim(*everywhere) as mine:
        waiters = None if made is None else on.crew.place(_pid(made.waiter))
        if made is None or waiters is None or len(mine) < len(everywhere):
            return
        if dice.random() < 0.5:
            on.fleet.put_ahead([made.masters[i] for i in made.late], keys.fence(made.name), _GHOST)
        made.hold([made.prompt], waiters)
        on.crew.send(_pid(made.owner), signal.SIGCONT)

        def confirmed() -> bool:
            i = made.late[0]
            return made.holder(i) == made.waiter and made.masters[i].pttl(made.name) > CLAIM_S * 1000

        if made.until(confirmed, RELEASE_S):
            on.crew.send(_pid(made.waiter), signal.SIGSTOP)
            made.haunt()
            others = [proxy for i, proxy in enumerate(on.fleet.proxies[made.prompt]) if i != waiters]
            for proxy in 4 * others:
                proxy.lose_request(on.commands["fence"], "reset")
            on.note("late-confirmation", f"{made.name} of {made.waiter}")
            if made.until(made.another, LATE_S):
                # Its release would hand the lock on.
                made.hold([made.prompt], on.crew.place(_pid(made.other)) or 0)
                # Not before it has released the lock everywhere else: else this would take a valid vote.
                if made.until(lambda: made.other not in map(made.holder, made.absent), LATE_S):
                    made.masters[made.prompt].hdel(made.name, made.other)
        made.let_go()
        for proxy in on.fleet.proxies[made.prompt]:
            proxy.mend()
        on.rest(0.01)
