"""The commands: what is in them stands where the header of the script says, and no more than is needed."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

import hiredis
import pytest

from rlock._client.connection import HandshakeResult
from rlock._client.connections import MasterConnection
from rlock._client.pending import PendingCall, PendingReply
from rlock.procedures.port import Request
from rlock.rules import commands, keys, replies
from rlock.rules.commands import Command
from rlock.rules.memory_epoch import MemoryReport
from rlock.rules.quorum import Settle
from rlock.rules.tickets import Place
from rlock.rules.wire import OWN
from rlock.testing import memory_client

from ..interrupts import Interrupt, interrupted
from .test_hearing import Wire

OWNER, TOKEN = "host/1/MainThread:" + "0" * 32, 1_763_000_000_000_000
CHANNEL = OWN.channel("x")
THEIRS, LATER = b"you:" + b"1" * 32, b"them:" + b"7" * 32
LOCK, QUEUE, FENCE, EVICTED = "x", keys.queue("x"), keys.fence("x"), keys.evicted("x", OWNER)


def waiting(fair: bool = False, drawn: bool = False) -> Place:
    place = Place("x", "host/1/Thread-1", "client_id", 9_000, fair=fair)
    place.ticket, place.drawn = 42, drawn
    return place


def keys_of(command: Command) -> list[str]:
    """The keys, each where the header has its name."""
    words = command.by_sha()
    return list(words[3 : 3 + int(words[2])])


def arguments_of(command: Command) -> dict[str, str]:
    """The arguments by their names in the header."""
    names = re.findall(r"^-- ARGV\[\d+\] +(\w+) ", command.script.source, re.MULTILINE)
    given = command.by_sha()[3 + len(keys_of(command)) :]
    return dict(zip(names, given, strict=False)) | ({"too many": "!"} if len(given) > len(names) else {})


def test_a_pair_of_which_nobody_else_knows_sends_what_it_must_and_no_more() -> None:
    """Each word more costs a master as much as a fiftieth of the pair."""
    taken = commands.acquire("x", OWNER, 9_000, token=TOKEN)
    assert keys_of(taken) == [LOCK, QUEUE, FENCE, keys.NOTE]
    assert keys_of(commands.acquire("x", OWNER, 9_000, token=TOKEN, guarded=False)) == [LOCK, QUEUE, FENCE]
    asked = {"owner": OWNER, "lease_ms": "9000", "proposal": str(TOKEN), "fence_ms": "3600000"}
    assert arguments_of(taken) == asked
    given_up = commands.release("x", OWNER, barging=True, token=TOKEN)
    assert keys_of(given_up) == [LOCK, QUEUE]
    assert arguments_of(given_up) == {
        "owner": OWNER,
        "channel": CHANNEL,
        "message": OWN.message(OWNER),
        "claim_ms": "1000",
    }


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("drawn", [False, True])
def test_an_acquire_that_waits_tells_its_place(fair: bool, drawn: bool) -> None:
    place = waiting(drawn=drawn)
    command = commands.acquire("x", OWNER, 9_000, place=place, fair=fair, token=TOKEN)
    told = arguments_of(command)
    assert list(told.values())[:4] == [OWNER, "9000", str(TOKEN), "3600000"]
    assert told["count"] == "1"
    assert told["order"] == ("fair" if fair else "barging")
    assert (told["waiter"], told["ticket"]) == (place.waiter, "42")
    assert (told["rank"], told["queue_ms"]) == ("kept" if drawn else "last", "30000")
    assert "too many" not in told


def test_an_acquire_tells_a_count_and_an_order_that_are_not_the_usual_ones() -> None:
    assert arguments_of(commands.acquire("x", OWNER, 9_000, 3))["count"] == "3"
    fair = arguments_of(commands.acquire("x", OWNER, 9_000, 3, fair=True))
    assert (fair["count"], fair["order"]) == ("3", "fair")
    assert "waiter" not in fair


def test_a_release_tells_the_place_that_it_leaves() -> None:
    command = commands.release("x", OWNER, waiter="a:1|s", hand_on=False, publish=False)
    assert keys_of(command) == [LOCK, QUEUE]
    told = arguments_of(command)
    assert (told["channel"], told["message"], told["waiter"]) == ("", "", "a:1|s")
    assert "next_waiter" not in told
    assert arguments_of(commands.release("x", OWNER, to_all=True))["claim_ms"] == "0"


@pytest.mark.parametrize("barging", [False, True])
@pytest.mark.parametrize("ban_s", [0.0, 20.0])
def test_a_release_tells_its_heir(barging: bool, ban_s: float) -> None:
    next_waiter = waiting()
    command = commands.release(
        "x", OWNER, next_waiter=next_waiter, next_owner="a:9", barging=barging, token=TOKEN, ban_s=ban_s
    )
    assert keys_of(command) == [LOCK, QUEUE, FENCE, EVICTED]
    told = arguments_of(command)
    assert (told["owner"], told["waiter"], told["next_waiter"], told["next_owner"]) == (
        OWNER,
        "",
        next_waiter.waiter,
        "a:9",
    )
    assert (told["next_lease_ms"], told["proposal"], told["fence_ms"]) == ("9000", str(TOKEN), "3600000")
    assert told["order"] == ("barging" if barging else "fair")
    assert told.get("ban_ms") == ("20000" if ban_s else None)
    assert "too many" not in told


def test_a_release_that_bans_has_the_key_for_it() -> None:
    command = commands.release("x", OWNER, ban_s=20.0)
    assert keys_of(command)[3] == EVICTED
    told = arguments_of(command)
    assert (told["next_waiter"], told["ban_ms"]) == ("", "20000")


# -- answers that are foreseen ---------------------------------------------------------------------------

NOTE = b"d0e1 0 1000"
REFUSED = [-1, THEIRS, 2, 8_990, 42, 0, 0, NOTE, 0]
GRANTED = [1, OWNER.encode(), 1, 9_000, 0, 0, TOKEN, NOTE, 0]
RELEASED = [1, OWNER.encode(), 1, 0, 0]


def expected_reply(command: Command, note: bytes = NOTE) -> Any:
    """What the answer that is foreseen says."""
    reader = hiredis.Reader()
    reader.feed(command.expected_reply + (commands.noted_end(note.decode()) if command.noted else b""))
    return reader.gets()


def leaving() -> Command:
    return commands.release("x", OWNER, waiter="a:1|s")


def asking(**options: Any) -> Command:
    return commands.acquire("x", OWNER, 9_000, place=waiting(**options), token=TOKEN, brief=True)


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (asking(), REFUSED),
        (asking(), [-3, b"", 0, 0, 0, 0, 0, b"", 0]),
        (asking(), GRANTED),
        (leaving(), RELEASED),
        (leaving(), [-1, THEIRS, 1, 900, 0]),
        (
            commands.release("x", OWNER, next_waiter=waiting(), next_owner="a:9"),
            [1, OWNER.encode(), 1, 9_000, TOKEN],
        ),
    ],
)
def test_of_the_other_masters_the_answer_of_the_first_is_foreseen(command: Command, reply: list[Any]) -> None:
    assert command.expected_reply == commands.NOT_FORESEEN
    whole = replies.decode_one(reply)
    assert command.decode(reply) == whole
    note = reply[7] if len(reply) == 9 else b""
    assert expected_reply(command, note) == reply
    # what a master says of itself is not foreseen of another one
    assert command.yes == whole._replace(note=None)


@pytest.mark.parametrize(
    "reply",
    [
        [1, b"somebody else", 1, 9_000, 0, 0, TOKEN, NOTE, 0],
        [*REFUSED[:8], 3],
        hiredis.ReplyError("OOM command not allowed"),
        [1, 2, 3],
    ],
    ids=["a grant to another one", "with the length of a queue", "a fault", "nonsense"],
)
def test_an_answer_that_the_others_cannot_give_is_not_foreseen(reply: Any) -> None:
    command = asking()
    assert command.decode(reply) == replies.decode_one(reply)
    assert command.expected_reply == commands.NOT_FORESEEN


def test_a_later_answer_that_differs_is_read_and_changes_nothing_of_what_is_foreseen() -> None:
    command = asking()
    command.decode(REFUSED)
    other = [-1, LATER, *REFUSED[2:]]
    assert command.decode(other).holder == LATER.decode()
    assert expected_reply(command) == REFUSED


@pytest.mark.parametrize(
    ("make", "reply"), [(asking, REFUSED), (leaving, RELEASED)], ids=["acquire", "release"]
)
def test_ctrl_c_while_the_first_answer_is_read_leaves_no_wrong_vote(
    make: Callable[[], Command], reply: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It drops the first master's connection; the second master's answer is compared with what was kept."""
    note = b"" if make is leaving else NOTE
    data = b"*%d\r\n" % len(reply) + b"".join(
        b"$%d\r\n%b\r\n" % (len(word), word) if isinstance(word, bytes) else b":%d\r\n" % word
        for word in reply
    )
    cut_short = 0
    wrong: list[str] = []
    tracer = Interrupt(0, ())
    with memory_client(3) as client:
        calls: Any = client._engine().masters
        calls._guard.judge(1, MemoryReport("d0e1", note=NOTE.decode()), 0.0)
        monkeypatch.setattr(calls, "_drop", lambda _, fault: wrong.append(f"{tracer.where}: {fault}"))
        for at in range(1, 100):
            command = make()
            with interrupted(at, "commands.py") as tracer:
                command.decode(reply)
            cut_short += command.expected_reply == commands.NOT_FORESEEN
            call, connection = PendingCall(Request(command, 1.0, Settle.ALL), 3, 0.0), Wire(HandshakeResult())
            connection.expect(note.decode())
            connection.pending.append(PendingReply(call, command, 0.0, 0.0))
            server: MasterConnection[Wire] = MasterConnection(1, None)
            server.connection = connection
            with calls._mutex:
                calls._take(server, connection, data)
            vote = replies.decode_one(reply)._replace(note=None)
            if call.ballot.votes[1]._replace(note=None) != vote:
                wrong.append(f"{tracer.where}: {call.ballot.votes[1]}")
            if not tracer.where:
                break
    assert not tracer.where, "it takes longer than that"
    assert wrong == []
    assert cut_short > 5


def test_that_one_who_was_handed_the_lock_gets_it_is_foreseen() -> None:
    claim = asking(drawn=True)
    assert expected_reply(claim) == GRANTED
    assert claim.yes == replies.decode_one(GRANTED)._replace(note=None)
    untimed = commands.acquire("x", OWNER, 9_000, place=waiting(drawn=True))
    assert untimed.expected_reply == commands.NOT_FORESEEN, "nobody knows the token of a master's own time"


def test_who_wants_to_know_no_more_says_so() -> None:
    assert arguments_of(asking())["told"] == "brief"
    assert "told" not in arguments_of(commands.acquire("x", OWNER, 9_000, place=waiting(), token=TOKEN))
    assert "told" not in arguments_of(commands.acquire("x", OWNER, 9_000, token=TOKEN, brief=True))


def test_an_owner_token_ends_with_a_uuid_of_version_7() -> None:
    tokens = {keys.owner_token("host/1/main") for _ in range(200)}
    assert len(tokens) == 200
    for token in tokens:
        client, _, text = token.rpartition(":")
        assert client == "host/1/main"
        made = uuid.UUID(text)
        assert (made.hex, made.version, made.variant) == (text, 7, uuid.RFC_4122)
    # of the 122 bits that are free each one is used: 48 tell the time, 74 differ
    bits = [int(token.rpartition(":")[2], 16) for token in tokens]
    always = ~0
    never = 0
    for value in bits:
        always &= value
        never |= value
    assert [always >> i & 1 or not never >> i & 1 for i in range(80)].count(True) == 6
