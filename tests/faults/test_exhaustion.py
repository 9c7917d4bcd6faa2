"""The client's process has no descriptor, or no thread, left."""

from __future__ import annotations

import time

import pytest

from ..servers import Fleet
from .conftest import TELL, ClientFor, Process, Waiter, everywhere, excluded, within

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
#: A holder that lets go when it is told to.
HOLDING = """\
lock.acquire()
exhaust()
print("got")
sys.stdin.readline()
"""


def test_a_holder_without_a_descriptor_left_renews_and_releases(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    child = process(DESCRIPTORS + HOLDING + TELL, masters3.urls, 1.5)
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
if "used" in sys.argv:
    client._engine()  # it has what it needs for itself
exhaust()
assert not lock.is_owned() and not lock.hold_count
try:
    lock.acquire(timeout=0.3)
except rlock.RLockError as error:
    print(type(error).__name__, error)
free()
lock.acquire()
lock.release()
print("usable")
"""
)


@pytest.mark.parametrize(("client", "error"), [("used", "QuorumUnreachableError"), ("new", "RLockError")])
def test_without_a_descriptor_for_a_connection_acquire_says_too_many_open_files(
    masters3: Fleet, process: Process, client: str, error: str
) -> None:
    child = process(WITHOUT_DESCRIPTORS.replace("sys.argv", repr([client])), masters3.urls)
    with within(5.0):
        told = child.line()
    assert told.startswith(f"{error} ")
    assert "Too many open files" in told
    assert child.line() == "usable"


#: Nobody else has processes under this user, and root is bound by no limit.
THREADS = """\
import resource, threading
import redis.connection, rlock._sync.engine, encodings.idna
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(64123); os.setuid(64123)
def exhaust():
    resource.setrlimit(resource.RLIMIT_NPROC, (1, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        return
    print("no limit")
    sys.exit()
def free():
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
"""
WITHOUT_THREADS = (
    THREADS
    + """\
exhaust()
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


def test_a_holder_without_a_thread_to_start_renews_and_releases(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    child = process(THREADS + HOLDING + TELL, masters3.urls, 1.5)
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
