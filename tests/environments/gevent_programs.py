"""The programs of test_gevent.py: after a prelude that patches, and programs.COMMON."""

from __future__ import annotations

PRELUDE = """
from gevent import monkey; monkey.patch_all()
import gevent as green
def join(greenlet): return greenlet.get()
"""

COUNT = """
import contextlib
name, path, times = sys.argv[1:4]
lock = rlock.Client(URLS, 3.0).lock(name) if name else contextlib.nullcontext()
for greenlet in [green.spawn(count, path, int(times), lock, green.sleep) for _ in range(6)]:
    join(greenlet)
"""

OWNERS = """
client = rlock.Client(URLS, 3.0)
lock = client.lock("x")
def other():
    return [lock.is_owned(), lock.hold_count, quiet(lock.acquire, blocking=False), quiet(lock.release)]
with lock, client.lock("x"):
    tell(mine=[lock.is_owned(), lock.hold_count], others=join(green.spawn(other)))
client.close()
"""

#: One greenlet waits for an ordinary process, while another one ticks.
WAIT = """
ticks = []
def tick():
    while True:
        ticks.append(time.monotonic())
        green.sleep(0.01)
lock = rlock.Client(URLS, 3.0).lock("x")
def wait():
    tell(waits=True)
    with lock:
        return time.monotonic()
ticker = green.spawn(tick)
waiter = green.spawn(wait)
green.sleep(1.5)  # after a look of the waiter, which comes every 1.2 s
waited = list(ticks)
tell(half=True)
got_at = join(waiter)
pauses = [later - sooner for sooner, later in zip(waited, waited[1:])]
tell(got_at=got_at, ticks=len(waited), longest=max(pauses))
"""

SLEEP = """
lock = rlock.Client(URLS, 0.9).lock("x")
with lock:
    tell(held=True)
    green.sleep(2.5)
    lock.check()
    tell(remaining=lock.remaining())
"""


KILL = """
import random
client, other = rlock.Client(URLS, 3.0), rlock.Client(URLS, 3.0)
lock = client.lock("x")
def use():
    with lock:
        green.sleep(0.001)
with other.lock("x"):
    waiter = green.spawn(lock.acquire)
    green.sleep(0.3)
    before = lock.statistics().queue_length
    waiter.kill()
    green.sleep(0.1)
    killed = lock.statistics().queue_length
    try:
        with green.Timeout(0.3):
            lock.acquire()
    except green.Timeout:
        pass
    green.sleep(0.1)
    tell(before=before, killed=killed, timed_out=lock.statistics().queue_length)
chance = random.Random(1)
for _ in range(60):
    users = [green.spawn(use) for _ in range(2)]
    green.sleep(chance.random() * 0.004)
    for user in users:
        user.kill()
began = time.monotonic()
tell(got=other.lock("x").acquire(timeout=10.0), after=time.monotonic() - began)
"""

END = """
client = rlock.Client(URLS, 10.0)
rest = green.spawn(lambda: (client.lock("y").acquire(), green.sleep(60)))
client.lock("x").acquire()
def wait():
    quiet(rlock.Client(URLS, 10.0).lock("x").acquire)
waiter = green.spawn(wait)
green.sleep(0.5)
"""

THREAD = """
def in_a_native_thread(*call):
    return green.get_hub().threadpool.apply(call[0], call[1:])
client = rlock.Client(URLS, 3.0)
with client.lock("x"):
    pass
def shared():
    with client.lock("x"):
        pass
def own():
    with rlock.Client(URLS, 3.0) as mine, mine.lock("x") as lock:
        return lock.is_owned()
tell(shared=in_a_native_thread(quiet, shared), own=in_a_native_thread(quiet, own))
"""


EARLY = """
client = rlock.Client(URLS, 3.0)
kept = rlock.Client(URLS, 3.0)
with client.lock("x"):
    pass
"""

LATE = """
def use(client):
    with client.lock("x") as lock:
        return lock.is_owned()
def told(client):
    try:
        return use(client)
    except rlock.OptionsError as error:
        return str(error)
tell(used=told(client))
tell(unused=told(kept))
os._exit(0)  # the library itself is broken by patching while threads run
"""


HALF = """
try:
    rlock.Client(URLS, 3.0).lock("x").acquire()
except rlock.OptionsError as error:
    tell(error=str(error))
"""
