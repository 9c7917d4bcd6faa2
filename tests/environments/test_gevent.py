"""rlock under gevent, monkey-patched; under eventlet it refuses to work."""

from __future__ import annotations

import pytest

import rlock
from rlock._sync.greenlets import EVENTLET

from ..servers import Fleet
from .programs import assert_nothing_is_left, needs, outcome, program

PRELUDE = """
from gevent import monkey; monkey.patch_all()
import gevent as green
"""

#: An ordinary process that has the lock until it is told to let go.
HOLDER = """
with rlock.Client(URLS, 3.0).lock("x"):
    tell(held=True)
    sys.stdin.readline()
    released_at = time.monotonic()
tell(released_at=released_at)
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
got_at = waiter.get()
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
    before = client.status(lock.name).queue_length
    waiter.kill()
    green.sleep(0.1)
    killed = client.status(lock.name).queue_length
    try:
        with green.Timeout(0.3):
            lock.acquire()
    except green.Timeout:
        pass
    green.sleep(0.1)
    tell(before=before, killed=killed, timed_out=client.status(lock.name).queue_length)
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

pytestmark = needs("gevent")


def test_other_greenlets_run_while_one_waits_and_the_release_wakes_it(masters3: Fleet) -> None:
    with program(HOLDER, masters3.urls) as ordinary:
        assert ordinary.facts() == {"held": True}
        with program(WAIT, masters3.urls, before=PRELUDE) as waiting:
            assert waiting.facts() == {"waits": True}
            assert waiting.facts() == {"half": True}
            ordinary.say()
            released = ordinary.facts()["released_at"]
            told = waiting.facts()
            assert waiting.end() == 0
    # A waiter that heard nothing would look again 0.9 s later.
    assert 0 <= told["got_at"] - released < 0.6
    assert told["ticks"] > 30
    assert told["longest"] < 0.5
    assert_nothing_is_left(masters3)


def test_a_lease_is_renewed_while_its_holder_sleeps(masters3: Fleet) -> None:
    with program(SLEEP, masters3.urls, before=PRELUDE) as sleeping:
        assert sleeping.facts() == {"held": True}
        with rlock.Client(masters3.urls, 0.9) as other:
            assert other.lock("x").acquire(timeout=2.0) is False
        assert sleeping.facts()["remaining"] > 0
        assert sleeping.end() == 0


def test_a_waiter_that_is_killed_or_runs_out_of_time_leaves_nothing(masters3: Fleet) -> None:
    told = outcome(KILL, masters3.urls, before=PRELUDE)
    assert (told["before"], told["killed"], told["timed_out"]) == (1, 0, 0)
    assert told["got"] is True
    assert told["after"] < 2.0  # less than a ttl: nothing was forgotten
    assert_nothing_is_left(masters3)


def test_the_end_of_the_process_frees_what_its_greenlets_hold(masters3: Fleet) -> None:
    outcome(END, masters3.urls, before=PRELUDE)
    with rlock.Client(masters3.urls, 3.0) as other:
        # The ttl is 10 s.
        assert other.lock("x").acquire(timeout=3.0)
        assert other.lock("y").acquire(timeout=3.0)


def test_a_native_thread_needs_a_client_of_its_own(masters3: Fleet) -> None:
    told = outcome(THREAD, masters3.urls, before=PRELUDE)
    assert told == {"shared": "OptionsError", "own": True}


def test_a_client_that_was_used_before_the_patch_says_so(masters3: Fleet) -> None:
    told = outcome(EARLY + PRELUDE + LATE, masters3.urls)
    assert "patch in the first lines of the program" in told["used"]
    assert told["unused"] is True


@pytest.mark.parametrize(("left_out", "named"), [("thread=False", "thread"), ("select=False", "select")])
def test_a_process_that_is_patched_in_part_is_refused(left_out: str, named: str, masters1: Fleet) -> None:
    prelude = PRELUDE.replace("patch_all()", f"patch_all({left_out})")
    told = outcome(HALF, masters1.urls, before=prelude)
    assert told["error"].startswith("gevent has patched ")
    assert f"but not {named}" in told["error"]


@needs("eventlet")
def test_a_process_that_eventlet_has_patched_is_refused(masters1: Fleet) -> None:
    patch = "import eventlet; eventlet.monkey_patch()\n"
    assert outcome(HALF, masters1.urls, before=patch) == {"error": EVENTLET}
    told = outcome(EARLY + patch + LATE, masters1.urls)
    assert told == {"used": EVENTLET, "unused": EVENTLET}
