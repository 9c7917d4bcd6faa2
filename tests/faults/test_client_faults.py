"""Client processes that stop, die, fork, or run out of descriptors or threads."""

from __future__ import annotations

import signal
import time

import pytest

from ..contract.conftest import Child
from ..servers import Fleet
from .conftest import (
    LOOK_S,
    ClientFor,
    Process,
    Waiter,
    everywhere,
    excluded,
    holders,
    usable,
    waiting,
    within,
)

HOLD = """\
lock.acquire()
print("got")
sys.stdin.readline()
"""
#: What a process says of its hold, and of the end of it.
TELL = """\
print(f"{lock.is_owned()} {lock.remaining():g} {lock.lost.is_set()}")
try:
    lock.check()
    print("checked")
except rlock.LeaseLostError as error:
    print("check:", error.reason)
try:
    lock.release()
    print("released")
except rlock.LeaseLostError as error:
    print("release:", error.reason)
lock.acquire()
lock.release()
print("usable")
"""
EXPIRED = "its validity ended before a quorum renewed it"


def stop(child: Child) -> None:
    child.process.send_signal(signal.SIGSTOP)


def go_on(child: Child) -> None:
    child.process.send_signal(signal.SIGCONT)


# -- stopped -----------------------------------------------------------------------------------------------


def test_a_holder_that_was_stopped_past_its_lease_is_told_so_and_does_not_hurt_its_successor(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    child = process(HOLD + TELL, masters3.urls, 1.2)
    other = client_for(masters3.urls)
    assert child.line() == "got"
    excluded(other)
    stop(child)
    successor = other.lock("x", renew=False)  # a renewal would put back what the child takes away
    with within(1.2 + LOOK_S):
        assert successor.acquire()
    mine = holders(masters3.urls)
    go_on(child)
    child.say()
    # From the first instant, whether or not its watchdog has run: the loss is computed from the clock.
    assert child.line() == "False 0 True"
    assert child.line() == f"check: {EXPIRED}"
    assert child.line() == f"release: {EXPIRED}"
    time.sleep(0.3)
    assert holders(masters3.urls) == mine
    successor.check()
    successor.release()
    assert child.line() == "usable"


def test_a_holder_that_was_stopped_for_less_than_its_lease_still_has_it(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    child = process(HOLD + TELL, masters3.urls, 2.4)
    other = client_for(masters3.urls)
    assert child.line() == "got"
    stop(child)
    time.sleep(1.2)  # a renewal was due meanwhile
    go_on(child)
    time.sleep(1.5)
    excluded(other)
    child.say()
    assert child.line().startswith("True ")
    assert [child.line() for _ in range(3)] == ["checked", "released", "usable"]


def test_a_stopped_waiter_that_was_handed_the_lock_costs_the_next_one_a_second_or_two(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    holder, other = client_for(masters3.urls, 10.0), client_for(masters3.urls, 10.0)
    lock = holder.lock("x")
    lock.acquire()
    first = process('print(lock.acquire(timeout=20)); lock.release(); print("released")', masters3.urls, 10.0)
    waiting(holder)
    second = Waiter(other)
    waiting(holder, 2)
    stop(first)
    lock.release()
    with within(1.0 + LOOK_S):
        assert second.got()
    go_on(first)
    with within(LOOK_S):
        assert first.line() == "True"
    assert first.line() == "released"
    usable(holder)


# -- killed ------------------------------------------------------------------------------------------------


def test_a_killed_holder_keeps_the_others_out_until_its_lease_ends_and_no_longer(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    child = process(HOLD, masters3.urls, 1.2)
    assert child.line() == "got"
    child.process.kill()
    child.process.wait()
    other = client_for(masters3.urls)
    excluded(other)
    with within(1.2 + LOOK_S):
        usable(other, 20.0)


def test_a_killed_waiter_costs_the_next_one_nothing(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    holder, other = client_for(masters3.urls, 10.0), client_for(masters3.urls, 10.0)
    lock = holder.lock("x", fair=True)
    lock.acquire()
    first = process('client.lock("x", fair=True).acquire()', masters3.urls, 10.0)
    waiting(holder)
    second = Waiter(other, fair=True)
    waiting(holder, 2)
    first.process.kill()
    first.process.wait()
    time.sleep(0.1)
    with within(0.5):
        lock.release()
        assert second.got()
    assert not holder.status("x").queue_length


# -- forked ------------------------------------------------------------------------------------------------

FORK_HOLDING = """\
lock.acquire()
child = os.fork()
if child == 0:
    assert not lock.is_owned() and lock.hold_count == 0
    try:
        lock.release()
    except rlock.NotHeldError as error:
        assert not isinstance(error, rlock.LeaseLostError)
    else:
        os._exit(1)
    if lock.acquire(blocking=False):
        os._exit(2)
    with client.lock("y"):
        pass
    sys.exit(3)  # with all that runs at the end of a process
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
time.sleep(1.8)
print("parent", lock.is_owned())
sys.stdin.readline()
lock.release()
print("released")
"""


def test_after_a_fork_the_child_holds_nothing_and_its_end_costs_the_parent_nothing(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    child = process(FORK_HOLDING, masters3.urls, 1.5)
    assert child.line() == "child 3"
    assert child.line() == "parent True", "it is not renewed"
    excluded(client_for(masters3.urls))
    child.say()
    assert child.line() == "released"
    usable(client_for(masters3.urls))


FORK_WAITING = """\
import threading
got = []
def wait():
    got.append(lock.acquire(timeout=20))
    time.sleep(0.3)
    lock.release()
waiter = threading.Thread(target=wait)
waiter.start()
sys.stdin.readline()
child = os.fork()
if child == 0:
    alive = client.lock("x").acquire(timeout=20)
    client.lock("x").release()
    os._exit(0 if alive else 1)
print("forked")
waiter.join()
print("parent", got[0])
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_after_a_fork_while_a_thread_waits_parent_and_child_both_get_the_lock(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    holder = client_for(masters3.urls, 10.0)
    lock = holder.lock("x")
    lock.acquire()
    child = process(FORK_WAITING, masters3.urls, 10.0)
    waiting(holder)
    child.say()
    assert child.line() == "forked"
    waiting(holder, 2)
    with within(2 * LOOK_S):
        lock.release()
        assert child.line() == "parent True"
        assert child.line() == "child 0"
    usable(holder)


# -- nothing left ------------------------------------------------------------------------------------------

#: Takes every descriptor that the process may still have; `free()` gives them back.
DESCRIPTORS = """\
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
def exhaust():
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
def free():
    while taken:
        os.close(taken.pop())
"""


def test_a_holder_without_a_descriptor_left_renews_and_releases(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    program = DESCRIPTORS + "lock.acquire(); exhaust(); print('got'); sys.stdin.readline()\n" + TELL
    child = process(program, masters3.urls, 1.5)
    assert child.line() == "got"
    assert everywhere(masters3.urls)
    time.sleep(1.8)
    excluded(client_for(masters3.urls))
    child.say()
    assert child.line().startswith("True ")
    assert [child.line() for _ in range(3)] == ["checked", "released", "usable"]


WITHOUT_DESCRIPTORS = (
    DESCRIPTORS
    + """\
client.lock("y").is_owned()  # the client has what it needs for itself
exhaust()
try:
    lock.acquire(timeout=0.3)
except rlock.QuorumUnreachableError as error:
    print(error)
free()
lock.acquire()
lock.release()
print("usable")
"""
)


def test_without_a_descriptor_for_a_connection_acquire_says_too_many_open_files(
    masters3: Fleet, process: Process
) -> None:
    child = process(WITHOUT_DESCRIPTORS, masters3.urls)
    with within(5.0):
        assert "Too many open files" in child.line()
    assert child.line() == "usable"


WAITING_WITHOUT_DESCRIPTORS = (
    DESCRIPTORS
    + """\
with client.lock("y"):
    exhaust()
    print("connected")
print(lock.acquire(timeout=20))
lock.release()
"""
)


def test_a_waiter_without_a_descriptor_for_its_subscriptions_polls(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    lock = client_for(masters3.urls, 10.0).lock("x")
    lock.acquire()
    child = process(WAITING_WITHOUT_DESCRIPTORS, masters3.urls, 10.0)
    assert child.line() == "connected"
    time.sleep(0.5)
    lock.release()
    with within(LOOK_S):
        assert child.line() == "True"


#: Nobody else has processes under this user, and root is bound by no limit.
THREADS = """\
import resource, threading
import redis.connection, rlock._sync.engine, encodings.idna
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(64123); os.setuid(64123)
def exhaust():
    resource.setrlimit(resource.RLIMIT_NPROC, (1, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
def free():
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
def started():
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        return False
    return True
"""
WITHOUT_THREADS = (
    THREADS
    + """\
exhaust()
if started():
    print("no limit")
    sys.exit()
for renew in (True, False):
    try:
        client.lock("x", renew=renew).acquire(timeout=0.3)
    except rlock.RLockError as error:
        print(type(error).__name__, error)
free()
lock.acquire()
lock.release()
print("usable")
"""
)


def test_without_a_thread_for_its_renewal_nothing_is_asked_for(masters3: Fleet, process: Process) -> None:
    child = process(WITHOUT_THREADS, masters3.urls)
    told = child.line()
    if told == "no limit":
        pytest.skip("RLIMIT_NPROC binds nobody here")
    assert told.startswith("RLockError lock 'x' was not asked for: can't start new thread")
    # A lock that is not renewed needs threads for its first connections only.
    told = child.line()
    assert told.startswith("QuorumUnreachableError")
    assert "can't start new thread" in told
    assert child.line() == "usable"


HOLDING_WITHOUT_THREADS = (
    THREADS
    + """\
lock.acquire()
exhaust()
if started():
    print("no limit")
    sys.exit()
print("got")
sys.stdin.readline()
"""
)


def test_a_holder_without_a_thread_to_start_renews_and_releases(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    child = process(HOLDING_WITHOUT_THREADS + TELL, masters3.urls, 1.5)
    told = child.line()
    if told == "no limit":
        pytest.skip("RLIMIT_NPROC binds nobody here")
    assert told == "got"
    waiter = Waiter(client_for(masters3.urls))
    time.sleep(1.8)
    assert not waiter.done
    child.say()
    assert child.line().startswith("True ")
    assert [child.line() for _ in range(3)] == ["checked", "released", "usable"]
    assert waiter.got()
