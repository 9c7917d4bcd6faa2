"""Masters and clients that are killed or stopped, and clients without descriptors or threads."""

from __future__ import annotations

import signal
import time

import pytest

import rlock

from ..lock.conftest import Child, eventually
from ..servers import AnyMaster, Fleet
from .conftest import (
    LOOK_S,
    TELL,
    ClientFor,
    FreshMasters,
    Process,
    Waiter,
    everywhere,
    excluded,
    holders,
    refuse_threads,
    usable,
    waiting,
    within,
)

HOW = ("killed", "stopped")


def harm(masters: Fleet, how: str) -> None:
    for master in masters:
        master.kill() if how == "killed" else master.pause()


def heal(masters: Fleet) -> None:
    for master in masters:
        master.resume() if master.running else master.start()


def port(master: AnyMaster) -> str:
    return master.url.rpartition(":")[2]


@pytest.mark.parametrize("how", HOW)
def test_a_minority_that_is_gone_is_noticed_by_neither_the_holder_nor_the_others(
    how: str, fresh_masters: FreshMasters, client_for: ClientFor
) -> None:
    fleet = fresh_masters(5)
    holder, other = client_for(fleet.urls, 1.5), client_for(fleet.urls, 1.5)
    usable(other)
    with holder.lock("x") as lock:
        assert everywhere(fleet.urls)
        harm(fleet[3:], how)
        # 0.25 s is the time-out of a request: nobody waits for it, not even the first time.
        for _ in range(5):
            with within(0.2):
                excluded(other)
                usable(other, name="y")
        time.sleep(1.7)
        lock.check()
        excluded(other)
    with within(0.5):
        usable(other)
    heal(fleet[3:])

    def votes_again() -> bool:
        with holder.lock("x"):
            time.sleep(0.05)
            return None not in holders(fleet.urls)

    assert eventually(votes_again)


@pytest.mark.parametrize("how", HOW)
def test_without_a_majority_acquire_raises_and_a_holder_loses_the_lock_when_its_lease_ends(
    how: str, fresh_masters: FreshMasters, client_for: ClientFor, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = fresh_masters(3)
    holder, other = client_for(fleet.urls, 1.5), client_for(fleet.urls, 1.5)
    usable(other)
    told: list[rlock.LeaseLostError] = []
    lock = holder.lock("x", on_lost=told.append)
    assert lock.acquire()
    harm(fleet[1:], how)
    ends_at = time.monotonic() + lock.remaining()
    for arguments in ((False, -1), (True, 0.5)):
        with within(2.5), pytest.raises(rlock.QuorumUnreachableError, match="votes of 2 masters") as caught:
            other.lock("x").acquire(*arguments)
        assert {master.rpartition(":")[2] for master in caught.value.faults} == {*map(port, fleet[1:])}
        assert caught.value.answered < 2
    for ask in (other.lock("x").locked, lambda: other.status("x"), lambda: other.evict("x")):
        with pytest.raises(rlock.QuorumUnreachableError):
            ask()
    assert lock.lost.wait(5.0)
    assert "trying on" in caplog.text
    # Silence is no loss before the validity ends; a renewal that was on its way may have moved the end.
    assert -0.05 < time.monotonic() - ends_at < 2.0
    with pytest.raises(rlock.LeaseLostError, match="another owner may have entered"):
        lock.check()
    assert eventually(lambda: told)
    with pytest.raises(rlock.LeaseLostError) as lost:
        lock.release()
    assert [error.reason for error in told] == [lost.value.reason]
    heal(fleet[1:])
    with within(10.0):
        usable(other, 10.0)
        usable(holder, 10.0)


# -- processes of clients


HOLD = """\
lock.acquire()
print("got")
sys.stdin.readline()
"""
EXPIRED = "its validity ended before a quorum renewed it"


def stop(child: Child) -> None:
    child.process.send_signal(signal.SIGSTOP)


def go_on(child: Child) -> None:
    child.process.send_signal(signal.SIGCONT)


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


def test_without_a_thread_for_its_renewal_nothing_is_asked_for(
    masters3: Fleet, client_for: ClientFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_for(masters3.urls)
    with monkeypatch.context() as patch:
        refuse_threads(patch)
        with pytest.raises(rlock.RLockError, match="'x' was not asked for: can't start new thread"):
            client.lock("x").acquire(timeout=0.3)
        # A lock that is not renewed needs no thread: its owner connects.
        with client.lock("x", renew=False):
            pass
    usable(client)


def test_a_holder_without_a_thread_left_renews_and_releases(
    masters3: Fleet, client_for: ClientFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, waiter = client_for(masters3.urls, 1.5).lock("x"), client_for(masters3.urls)
    lock.acquire()
    waits = Waiter(waiter, renew=False)
    waiting(waiter)
    with monkeypatch.context() as patch:
        refuse_threads(patch)
        time.sleep(1.8)
        assert not waits.done
        lock.check()
        lock.release()
        assert waits.got()


def test_a_holder_without_a_descriptor_left_renews_and_releases(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    child = process(DESCRIPTORS + HOLDING + TELL, masters3.urls, 1.5)
    assert child.line() == "got"
    waiter = Waiter(client_for(masters3.urls))
    time.sleep(1.8)
    assert not waiter.done
    child.say()
    assert child.line().startswith("True ")
    assert [child.line() for _ in range(3)] == ["checked", "released", "usable"]
    assert waiter.got()
