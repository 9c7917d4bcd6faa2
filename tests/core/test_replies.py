"""Whatever a master says: a decoder makes of it a vote, a number or nothing, and never raises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import hiredis
import pytest

from rlock._client.handshake import ConnectOptions, handshake
from rlock._client.runtime import NO_WAIT
from rlock._sync.runtime import run
from rlock.errors import RLockError
from rlock.model import Code, Vote
from rlock.procedures import inspect
from rlock.procedures.port import WaitGenerator
from rlock.procedures.renew import judge
from rlock.rules import replies
from rlock.rules.keys import owner_token
from rlock.rules.quorum import Ballot
from rlock.rules.renewal_votes import LockVotes

from .test_renewal import a_hold
from .world import World

OWNER = owner_token("host/1/main").encode()
#: Values in the place of an expected one.
JUNK: tuple[Any, ...] = (
    *(0, 1, -1, 7, -9, 2**63 - 1, -(2**63)),
    *(math.inf, -math.inf, math.nan, 1e300, 0.5, True, None),
    *(b"", b"inf", b"nan", b"-", b"--5", b"1e400", b"\xff\xfe", b"9" * 5000, "\xb2".encode(), OWNER),
    *("", "5", [], [[]], [b"a"], [1, [2, [3]]], {}, {b"a": 1}, set(), (b"1", b"2")),
    *(hiredis.ReplyError(""), hiredis.ReplyError("NOPERM x"), hiredis.ReplyError("\udcff")),
)
DECODERS: dict[str, tuple[Callable[[Any], Vote], list[Any]]] = {
    "acquire": (replies.decode_one, [-1, OWNER, 1, 900, 5, 7, 0, b"m 1 2", 3]),
    "release": (replies.decode_one, [1, OWNER, 1, 0, 0]),
    "wait": (replies.decode_wait, [1, OWNER, 1, 900, 7]),
    "handshake": (replies.decode_handshake, [1, b"m 1 2", 0, 0, 7]),
    "status": (
        replies.decode_status,
        [1, OWNER, 1, 900, 2, [OWNER + b"|s", b"5", OWNER + b"|t", b"1e15"], b"m 1 2"],
    ),
    "renew": (lambda reply: replies.decode_batch(reply, 2), [OWNER, [1, 0], b"m 1 2"]),
}


def spoiled(random: Random, reply: Any) -> Any:
    """The reply with something in it that does not belong there."""
    kind = random.randrange(5)
    if not isinstance(reply, list) or not reply or kind == 0:
        return random.choice(JUNK)
    if kind == 1:
        return reply[: random.randrange(len(reply))]
    if kind == 2:
        return [*reply, random.choice(JUNK)]
    i = random.randrange(len(reply))
    return [*reply[:i], spoiled(random, reply[i]), *reply[i + 1 :]]


@pytest.mark.parametrize("name", DECODERS)
def test_whatever_a_script_answers_is_a_vote_that_can_be_counted(name: str) -> None:
    decode, whole = DECODERS[name]
    assert decode(whole).fault is None
    for seed in range(4_000):
        random, world = Random(seed), World(3)
        reply = whole
        for _ in range(random.randrange(1, 4)):
            reply = spoiled(random, reply)
        vote = decode(reply)
        assert isinstance(vote, Vote), reply
        assert vote.fault is not None or vote.code in set(Code) - {Code.FAULT}, reply
        ballot = Ballot(3)
        for i in range(3):
            ballot.cast(i, vote)
        if name == "renew":
            for i in range(2):
                judge(world.context, a_hold(), LockVotes(ballot, i))
        elif name != "status":
            assert ballot.answered + ballot.faulted == 3
            assert ballot.foreign_holder() is None or ballot.hopeless is False
        else:
            told = inspect.told(world.context, "x", ballot)
            assert told.remaining is None or math.isfinite(told.remaining)
            assert told.hold_count >= 0
            world.rounds = [[vote] * 3]
            try:
                world.run(inspect.locked(world, "x", 0.5))
            except RLockError:
                pass


def spoiled_replies(random: Random, commands: Sequence[tuple[str, ...]]) -> WaitGenerator[list[Any]]:
    yield from NO_WAIT
    return [spoiled(random, [b"1790000000", b"5"]) for _ in commands]


@pytest.mark.parametrize("subscriber", [False, True])
@pytest.mark.parametrize("guarded", [False, True])
def test_a_handshake_survives_any_reply(subscriber: bool, guarded: bool) -> None:
    for seed in range(2_000):
        random = Random(seed)
        options = ConnectOptions(1.0, subscriber=subscriber, guarded=guarded, kill=[("life", 5)])
        report = run(handshake("m", options, partial(spoiled_replies, random))).memory_report
        assert type(report.time_us) is int
        assert abs(report.time_us) < 2**63
        assert report.memory in ("volatile", "durable")
        assert type(report.run_id) is type(report.note) is str
