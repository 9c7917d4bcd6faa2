"""Masters and clients that are killed or stopped, and clients without descriptors or threads."""

from __future__ import annotations

import signal
import time

import pytest

import rlock
from rlock.rules.keys import NOTE, fence, queue

from ..lock.conftest import StartChild, eventually
from ..servers import Fleet, raw
from .checks import everywhere, excluded, holders, refuse_threads, subscribers, usable, waiting, within
from .conftest import POLL_S, FreshMasters, Scene, Scenes, Waiter
from .hands import Event, judge, rounds

HOW = ("killed", "stopped")


def harm(masters: Fleet, how: str) -> None:
    for master in masters:
        master.kill() if how == "killed" else master.pause()


def heal(masters: Fleet) -> None:
    for master in masters:
        master.resume() if master.running else master.start()


@pytest.mark.parametrize("how", HOW)
def test_a_minority_that_is_gone_is_noticed_by_neither_the_holder_nor_the_others(
    how: str, fresh_masters: FreshMasters, scenes: Scenes
) -> None:
    scene = scenes(fresh_masters(5))
    lock, other = scene.held(1.5)
    assert everywhere(scene.urls)
    harm(scene.fleet[3:], how)
    # 0.25 s is the time-out of a request: nobody waits for it, not even the first time.
    for _ in range(5):
        with within(0.2):
            excluded(other)
            usable(other, name="y")
    time.sleep(1.7)
    lock.check()
    excluded(other)
    lock.release()
    with within(0.5):
        usable(other)
    heal(scene.fleet[3:])

    def votes_again() -> bool:
        with lock:
            time.sleep(0.05)
            return None not in holders(scene.urls)

    assert eventually(votes_again)


@pytest.mark.parametrize("how", HOW)
def test_without_a_majority_acquire_raises_and_a_holder_loses_the_lock_when_its_lease_ends(
    how: str, fresh: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[rlock.LeaseLostError] = []
    lock, other = fresh.held(1.5, on_lost=told.append)
    usable(another := fresh.client(), name="y")
    gone = fresh.fleet[1:]
    harm(gone, how)
    ends_at = time.monotonic() + lock.remaining()
    with within(0.4), pytest.raises(rlock.QuorumUnreachableError):
        another.semaphore("y", permits=3).acquire(timeout=0.1)
    for arguments in ((False, -1), (True, 0.5)):
        with within(2.5), pytest.raises(rlock.QuorumUnreachableError, match="votes of 2 masters") as caught:
            other.lock("x").acquire(*arguments)
        assert {*caught.value.faults} == {*gone.labels}
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
    heal(gone)
    with within(10.0):
        usable(other, 10.0)
        assert lock.acquire(timeout=10.0)


@pytest.mark.rule("4.4")
def test_places_that_a_stopped_master_gives_late_are_passed_on_at_once(fresh: Scene) -> None:
    lock, other = fresh.held(1.0, fair=True)
    stopped, another, _ = fresh.fleet
    stopped.pause()
    # It runs their joins when it goes on. Their releases come late, and are not sent again.
    gone = [Waiter(other, fair=True) for _ in range(3)]
    waiting(other, 3)
    lock.release()
    assert all(waiter.got() for waiter in gone)
    time.sleep(1.1)
    lock.acquire()
    stopped.resume()
    waiter = Waiter(other, fair=True)
    assert eventually(lambda: raw(stopped.url).zcard(queue("x")) > 2 and subscribers(stopped.url) == 1)
    another.pause()
    with within(1.5):
        lock.release()
        assert waiter.got()


# -- processes of clients

HOLD = """\
lock.acquire()
print("got")
sys.stdin.readline()
"""
#: A process tells of its hold, and of the end of it.
TELL = """\
print(f"{lock.is_owned()} {lock.remaining():g} {lock.lost.is_set()}")
for call in (lock.check, lock.release):
    try:
        call()
        print("well")
    except rlock.LeaseLostError as error:
        print(error.reason)
lock.acquire()
lock.release()
print("usable")
"""
EXPIRED = "its validity ended before a quorum renewed it"


def test_a_holder_that_was_stopped_past_its_lease_is_told_so_and_does_not_hurt_its_successor(
    scene: Scene,
) -> None:
    child = scene.process(HOLD + TELL, 1.2)
    other = scene.client()
    assert child.line() == "got"
    excluded(other)
    child.process.send_signal(signal.SIGSTOP)
    successor = other.lock("x", renew=False)  # a renewal would put back what the child takes away
    with within(1.2 + POLL_S):
        assert successor.acquire()
    mine = holders(scene.urls)
    child.process.send_signal(signal.SIGCONT)
    child.say()
    # From the first instant, whether or not its watchdog has run: the loss is computed from the clock.
    assert [child.line() for _ in range(3)] == ["False 0 True", EXPIRED, EXPIRED]
    time.sleep(0.3)
    assert holders(scene.urls) == mine
    successor.check()
    successor.release()
    assert child.line() == "usable"


CONNECT = """\
import sys, rlock
connected, lock = False, rlock.Client(sys.argv[1], 2.0, max_ttl=2.0, request_timeout=0.6).lock("x")
while not connected:
    try:
        connected = not lock.locked()
    except rlock.QuorumUnreachableError:
        pass
with lock:
    print(lock.fencing_token)
"""


@pytest.mark.rule("3.8")
def test_a_process_that_was_stopped_while_it_connected_takes_no_old_time_for_that_of_its_master(
    fresh: Scene, child: StartChild
) -> None:
    fresh.proxied(1)
    (proxy,), master = fresh.proxies, raw(fresh.urls[-1])
    proxy.delay_s = 0.5
    master.delete(NOTE)
    stopped = child(CONNECT, proxy.url)
    assert eventually(lambda: master.exists(NOTE))
    stopped.process.send_signal(signal.SIGSTOP)  # an answer with the time of the master is on its way
    time.sleep(2.2)  # until the restart guard of the master is over
    earlier = usable(fresh.client(urls=fresh.urls[-1:]))
    master.delete(fence("x"))  # as a master that was restarted while the process stood still
    proxy.mend()
    stopped.process.send_signal(signal.SIGCONT)
    assert int(stopped.line()) > earlier


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
WITHOUT_DESCRIPTORS = """\
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


@pytest.mark.parametrize(
    ("first", "error"),
    [("client._engine()\n", "QuorumUnreachableError"), ("", "RLockError")],
    ids=["used", "new"],
)
def test_without_a_descriptor_for_a_connection_acquire_says_too_many_open_files(
    scene: Scene, first: str, error: str
) -> None:
    child = scene.process(first + DESCRIPTORS + WITHOUT_DESCRIPTORS)
    with within(5.0):
        told = child.line()
    assert told.startswith(f"{error} ")
    assert "Too many open files" in told
    assert child.line() == "usable"


def test_without_a_thread_for_its_renewal_nothing_is_asked_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = scene.client()
    with monkeypatch.context() as patch:
        refuse_threads(patch)
        with pytest.raises(rlock.RLockError, match="'x' was not asked for: can't start new thread"):
            client.lock("x").acquire(timeout=0.3)
        # A lock that is not renewed needs no thread: its owner connects.
        with client.lock("x", renew=False):
            pass
    usable(client)


def test_a_holder_without_a_thread_left_renews_and_releases(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, other = scene.held(1.5)
    waiter = Waiter(other, renew=False)
    waiting(other)
    with monkeypatch.context() as patch:
        refuse_threads(patch)
        time.sleep(1.8)
        assert not waiter.done
        lock.check()
        lock.release()
        assert waiter.got()


def test_a_holder_without_a_descriptor_left_renews_and_releases(scene: Scene) -> None:
    child = scene.process(DESCRIPTORS + HOLD.replace("print", "exhaust()\nprint") + TELL, 1.5)
    assert child.line() == "got"
    waiter = Waiter(scene.client())
    time.sleep(1.8)
    assert not waiter.done
    child.say()
    assert child.line().startswith("True ")
    assert [child.line() for _ in range(3)] == ["well", "well", "usable"]
    assert waiter.got()


@pytest.mark.slow
@pytest.mark.rule("3.12")
def test_between_processes_that_are_killed_nothing_overlaps_and_nothing_is_lost(masters3: Fleet) -> None:
    outcomes, wrong = rounds(masters3.urls, 40, 1)
    assert not wrong
    assert outcomes["adopted"] > 5
    assert outcomes.total() == 40


def test_each_fault_of_a_round_is_seen() -> None:
    held = [Event("holder", "enter", 5), Event("holder", "leave"), Event("holder", "handle")]
    good = [*held, Event("adopter", "enter", 5), Event("adopter", "killed"), Event("rival", "enter", 6)]
    assert judge(good, "adopted") == []
    for events, wrong in (
        ([*held, Event("rival", "enter", 6)], "the rival was in between"),
        ([*good, Event("another", "enter", 5)], "another enters beside rival"),
        ([*held, Event("adopter", "enter", 6)], "the adopter has another token"),
    ):
        assert judge(events, "adopted") == [wrong]
    assert judge([*held, Event("rival", "enter", 5)], "") == ["the rival has a token that is not greater"]
