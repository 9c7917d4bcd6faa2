"""Withdraw: the undo of everything that an acquire has sent.

A contender that ends without the lock must leave no vote, queue place or subscription behind. `withdraw`
sends the undo of each token in `Contender.owners`. It waits for nothing, so it can follow Ctrl-C anywhere.
"""

from ..rules import commands, keys
from ..rules.options import LockOptions
from ..rules.waiting import Stage, Step
from .contender import Contender
from .port import Masters, Port


def undo(masters: Masters, options: LockOptions, owner: str) -> None:
    """Remove an owner token's vote and queue place from all masters."""
    waiter = keys.waiter_name(owner, masters.context.client_id)
    command = commands.undo(masters.context.wire, options.name, owner, waiter)
    masters.send(command, resend_for=options.lease.ttl)


def take_back(port: Port, contender: Contender) -> None:
    for owner in list(contender.owners):
        undo(port.masters, contender.options, owner)
        contender.owners.remove(owner)


def leave_queue(port: Port, contender: Contender) -> None:
    place = contender.place
    if place is not None:
        # First: otherwise the poll of another waiter could put the place back.
        port.notifications.unsubscribe(contender, withdrawn=True)
        # The command also passes on a lock that a master has just handed to this place.
        leave = commands.leave_queue(port.context.wire, place.name, place.waiter)
        port.masters.send(leave, resend_for=contender.options.lease.ttl)
        contender.place = None
        contender.step(Step.WITHDRAW)
        # Last: Ctrl-C in between leaves the token to `take_back`, which may repeat the command.
        contender.owners.remove(place.owner)


def step_aside(port: Port, contender: Contender) -> None:
    """Take a waiter that hears nothing out of the queue. Otherwise each release would wait for it.

    It keeps its ticket, and comes back with it when a quorum confirms the subscription.
    """
    place = contender.place
    if contender.stage is Stage.WAITING and place is not None and not place.aside:
        place.aside = True
        place.attempts += 1  # first: the lease of a message that arrives now is undone by this command
        port.masters.send(commands.leave_queue(port.context.wire, place.name, place.waiter))


def withdraw(port: Port, contender: Contender) -> None:
    try:
        _undo_all(port, contender)
    except BaseException:
        # A second Ctrl-C. Otherwise the rest would stay on the masters until its lease ends.
        _undo_all(port, contender)
        raise
    finally:
        # Last: otherwise votes that are not yet undone would refuse the next owner's round.
        port.leave(contender)


def _undo_all(port: Port, contender: Contender) -> None:
    leave_queue(port, contender)
    take_back(port, contender)
