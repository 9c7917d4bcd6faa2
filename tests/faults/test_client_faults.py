"""Client processes that stop, die, fork, or run out of descriptors or threads."""

from __future__ import annotations

import os
import signal
import time

from rlock.rules.timing import CLAIM_S

from ..lock.conftest import Child
from ..servers import Fleet
from .conftest import LOOK_S, TELL, ClientFor, Process, excluded, holders, waiting, within

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


STOPS_ITSELF = """\
import os, signal
print("waiting")
lock.acquire()
os.kill(os.getpid(), signal.SIGSTOP)
print(lock.is_owned())
lock.release()
print("released")
"""


def test_a_stop_right_after_a_hand_off_costs_nothing_while_the_lease_lasts(
    masters3: Fleet, client_for: ClientFor, process: Process
) -> None:
    """The messages grant it for a second only. The replies to the confirmation are the proof."""
    other = client_for(masters3.urls, 8.0)
    with other.lock("x"):
        child = process(STOPS_ITSELF, masters3.urls, 8.0)
        assert child.line() == "waiting"
        waiting(other, 1)
    _, status = os.waitpid(child.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    time.sleep(CLAIM_S + 1.0)
    excluded(other)
    go_on(child)
    assert (child.line(), child.line()) == ("True", "released")


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
