"""Strangers write keys, publish messages and answer: all of that is data, and raises nothing."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import hiredis
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

import rlock
from rlock import events
from rlock._client.handshake import ConnectOptions, handshake
from rlock._client.libraries import Reader
from rlock._client.runtime import NO_WAIT
from rlock._sync.runtime import run
from rlock.cli.scan import info, names
from rlock.errors import RLockError
from rlock.model import Code, Vote
from rlock.procedures import inspect
from rlock.procedures.port import WaitGenerator, Wake, new_owner
from rlock.procedures.renew import judge
from rlock.rules import keys, replies
from rlock.rules.keys import NOTE
from rlock.rules.lease import LockVotes
from rlock.rules.restart_guard import Guard

from ..core.test_one_connection import Hearing
from ..core.test_one_connection import hearing as hearing  # a fixture
from ..core.test_restart_guard import told
from ..core.world import World, a_hold, cast
from ..lock.conftest import eventually, running
from ..servers import Fleet, raw, tell
from ..telemetry.happenings import Ledger
from .conftest import fuzz, within

OWNER = new_owner("host/1/main").encode()
#: Numbers of a stranger. The last three fit into the doubles of Lua, but no greater token does.
NUMBERS = (
    *(b"inf", b"-inf", b"nan", b"1e999", b"1e300", b"-5", b"0", b"1.5", b"0x10", b"9" * 300, "\xb2".encode()),
    *(b"%d" % number for number in (2**63, 2**53 - 1, 9 * 10**15 - 1, 9 * 10**15)),
)
NUMBER = st.sampled_from(NUMBERS) | st.integers(0, 2**64).map(lambda number: b"%d" % number)
PLACES = (OWNER, OWNER + b"|s", b"|", b"\xff\xfe", b"x" * 5000)
WORD = st.binary(max_size=20) | st.sampled_from(PLACES) | NUMBER
WORDS = st.lists(WORD, max_size=4).map(b" ".join)
#: The parser replaces bytes that are no text.
ERROR = st.sampled_from(("", "NOPERM x", "\ufffd", "NOSCRIPT")).map(hiredis.ReplyError)
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | WORDS | st.text() | ERROR
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORD, inner, max_size=2), max_leaves=5
)

OF_ITS_TYPE: dict[type, Any] = {int: st.integers(-(2**63), 2**63 - 1), bytes: WORDS}


@st.composite
def spoiled(draw: Callable[..., Any], reply: Any) -> Any:
    """The reply with something in it that does not belong there."""
    if not isinstance(reply, list) or not reply or draw(st.integers(0, 4)) == 0:
        return draw(st.one_of(OF_ITS_TYPE.get(type(reply), ANYTHING), ANYTHING))
    at, how = draw(st.integers(0, len(reply) - 1)), draw(st.integers(0, 3))
    if how < 2:
        return reply[:at] if how else [*reply, draw(ANYTHING)]
    return [*reply[:at], draw(spoiled(reply[at])), *reply[at + 1 :]]


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


@pytest.mark.parametrize("name", DECODERS)
@fuzz(200)
@given(data=st.data())
def test_whatever_a_script_answers_is_a_vote_that_can_be_counted(name: str, data: st.DataObject) -> None:
    decode, reply = DECODERS[name]
    assert decode(reply).fault is None
    world = World(3)
    for _ in range(data.draw(st.integers(1, 3))):
        reply = data.draw(spoiled(reply))
    vote = decode(reply)
    assert vote.fault is not None or vote.code in set(Code) - {Code.FAULT}
    assert name == "wait" or 0 <= vote.token <= keys.MAX_TOKEN
    ballot = cast([vote] * 3)
    if name == "renew":
        for i in range(2):
            judge(world.context, a_hold(), LockVotes(ballot, i))
    elif name != "status":
        assert ballot.answered + ballot.faulted == 3
        assert ballot.foreign_holder() is None or ballot.hopeless is False
    else:
        found = inspect.told(world.context, "x", ballot)
        assert found.remaining is None or math.isfinite(found.remaining)
        assert found.hold_count >= 0
        world.rounds = [[vote] * 3]
        with contextlib.suppress(RLockError):
            world.run(inspect.locked(world, "x", 0.5))


def a_spoiled_exchange(data: st.DataObject, commands: Sequence[tuple[str, ...]]) -> WaitGenerator[list[Any]]:
    yield from NO_WAIT
    return [data.draw(spoiled([b"1790000000", b"5"])) for _ in commands]


@fuzz(100)
@given(data=st.data(), guarded=st.booleans(), subscriber=st.booleans())
def test_a_handshake_survives_any_reply(data: st.DataObject, guarded: bool, subscriber: bool) -> None:
    options = ConnectOptions(1.0, subscriber=subscriber, guarded=guarded, kill=[("life", 5)])
    report = run(handshake("m", options, partial(a_spoiled_exchange, data))).memory_report
    assert type(report.time_us) is int
    assert abs(report.time_us) < 2**63
    assert report.memory in ("volatile", "durable")
    assert type(report.run_id) is type(report.note) is str


@fuzz(300)
@given(note=WORDS | st.tuples(WORD, NUMBER, NUMBER).map(b" ".join), other=WORDS, field=ANYTHING, key=WORD)
def test_any_note_info_and_key_can_be_read(note: bytes, other: bytes, field: Any, key: bytes) -> None:
    guard = Guard(1, 10.0)
    for now, text in enumerate((note.decode("utf-8", "replace"), other.decode("utf-8", "replace"))):
        guard.check_note(0, text, 100.0 + now)
        guard.judge(0, told(text, 100.0 + now, "a1"), 100.0 + now)
        assert math.isfinite(guard.remaining(0, 100.0))
        assert guard.fault(0, 100.0)
        guard.counts(0, text, 101.0)
    found = {**replies.fields(note), "slave0": replies.text(field), "master_replid2": replies.text(key)}
    info.health(found, replies.setting(field))
    info.group(found, field, 1, "m", 0.0)
    info.time_of(field)
    names.lock_of(key)
    names.waited_for(b"rlock:" + key + b":queue")
    replies.fault(field)


@pytest.mark.parametrize(
    "answer", [b"+OK\r\n", b":1\r\n", b"*4\r\n" + b"*0\r\n" * 4, b"*9000\r\n" + b"*0\r\n" * 9_000]
)
def test_an_answer_that_is_no_message_ends_the_connection(hearing: Hearing, answer: bytes) -> None:
    """Otherwise a server that answers each SUBSCRIBE so could keep a thread reading."""
    server = hearing.servers[0]
    hearing.take(server, answer + hearing.message(hearing.place.owner))
    assert (server.connection, hearing.inbox.handed_by) == (None, {})
    assert server.failures == 1, "after the second failure it waits"


@fuzz(150)
@given(kind=st.just(b"message") | ANYTHING, where=st.integers(0, 2), payload=WORDS | ANYTHING, other=ANYTHING)
def test_any_message_is_heard_and_wakes_nobody(
    hearing: Hearing, kind: Any, where: int, payload: Any, other: Any
) -> None:
    subscription = hearing.subscriptions._by_name["x"]
    channel = (subscription.public, subscription.client, other)[where]
    server = SimpleNamespace(index=0, connection=None, endpoint=SimpleNamespace(label="m0"))
    with hearing.subscriptions._mutex:
        for master in range(3):
            server.index = master
            hearing.subscriptions._receive(server, [kind, channel, payload])
            hearing.subscriptions._receive(server, other)
    hearing.subscriptions.after_data()
    assert hearing.inbox.take_reason() is Wake.TIME or keys.OWN.announces(payload)


def test_a_message_of_another_program_is_counted_logged_once_and_hurts_no_waiter(
    masters3: Fleet, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    """For all waiters of a client: one thread reads for all of them."""
    with rlock.Client(masters3.urls) as holder, rlock.Client(masters3.urls) as other:
        for name in "xy":
            holder.lock(name).acquire()
        with running(*(other.lock(name).acquire for name in "xy")):
            assert eventually(lambda: all(holder.status(name).queue_length for name in "xy"))
            own = keys.OWN.client_channel("x", other._engine().context.client_id)
            for url, channel in itertools.product(masters3.urls, 3 * [keys.OWN.channel("x"), own]):
                raw(url).publish(channel, b"\xff\xfe")
            assert eventually(lambda: len(ledger.of(events.UnknownMessage)) == 18)
            for name in "xy":
                holder.lock(name).release()
    assert len(ledger.of(events.Acquired)) == 4
    logged = [record for record in caplog.records if getattr(record, "event", "") == "unknown_message"]
    assert sorted(record.kind for record in logged) == ["hand-off", "release"]  # type: ignore[attr-defined]


SCORE = st.sampled_from((b"inf", b"-inf", b"1e300", b"-1", b"1.5", b"%d" % (2**63 - 1), b"1790000000000000"))
#: Keys of any type, and what a stranger may put in the place of those of lock "x".
OF_ANY_TYPE = st.tuples(st.sampled_from(("SET", "RPUSH", "SADD")), WORDS) | st.tuples(
    st.sampled_from(("ZADD", "HSET")), SCORE, WORD
)
PLANTS = {
    "x": st.tuples(st.just("HSET"), st.just(OWNER) | WORD, NUMBER),
    keys.queue("x"): st.tuples(st.just("ZADD"), SCORE, st.just(OWNER + b"|s") | WORD),
    keys.fence("x"): st.tuples(st.just("SET"), st.sampled_from(NUMBERS[-4:]) | NUMBER, st.just(b" "), WORD),
    NOTE: st.tuples(st.just("SET"), st.just(b"RUN_ID ") | WORD, NUMBER, st.just(b" "), NUMBER),
}
STRANGE = st.dictionaries(st.sampled_from(sorted(PLANTS)), st.integers(0, 2), min_size=1)


def plant(server: Any, run_id: bytes, data: st.DataObject) -> None:
    """Somebody writes keys on one master."""
    for key, usual in data.draw(STRANGE).items():
        command: Any = data.draw(PLANTS[key] if usual else OF_ANY_TYPE)
        verb, *words = command
        text = b"".join(words).replace(b"RUN_ID", run_id)
        server.delete(key)
        with contextlib.suppress(redis.ResponseError):
            server.execute_command(verb, key, *([text] if verb == "SET" else words))


def test_a_note_of_another_type_counts_as_a_lost_memory_and_ends_no_hold(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls, 1.0, max_ttl=1.0) as client, client.lock("x") as lock:
        tell(masters3.urls, "RPUSH", "a list", "somebody's")
        tell(masters3.urls, "RENAME", "a list", NOTE)  # in one step: a client writes a note that is missing
        assert isinstance(within(1.0, client.lock("y").acquire, blocking=False), rlock.QuorumUnreachableError)
        assert within(3.0, client.lock("y").acquire, timeout=3.0) is True
        lock.check()
        client.lock("y").release()


@pytest.mark.rule("3.8")
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    "last",
    [7 * 10**15, 8 * 10**15 - 1, 9 * 10**15 - 1, 2**53, 2**63 - 1, 10**400],
    ids=lambda number: str(number)[:20],
)
def test_no_token_that_a_stranger_stores_makes_a_later_one_lower(
    masters3: Fleet, last: int, count: int
) -> None:
    """On one master, too: the highest token of a quorum is stored on the others."""
    for url in masters3.urls[:count]:
        raw(url).set(keys.fence("x"), f"{last} somebody")
    tokens: list[int] = []
    with rlock.Client(masters3.urls) as client:
        for _ in range(6):
            lock = client.lock("x")
            if within(1.0, lock.acquire, timeout=0.1) is True:
                tokens.append(lock.fencing_token)
                lock.release()
    assert tokens == sorted({*tokens})
    assert tokens or count == 3
    assert (8 * 10**15 - 1 <= last <= 9 * 10**15) or len(tokens) == 6, "other tokens cost nobody a try"


@fuzz(60, shrink=False)
@given(data=st.data(), everywhere=st.booleans(), fair=st.booleans())
def test_keys_of_strangers_cost_their_master_its_vote_and_nothing_else(
    masters3: Fleet, data: st.DataObject, everywhere: bool, fair: bool
) -> None:
    servers: list[Any] = [raw(url) for url in masters3.urls]
    run_ids = [server.info("server")["run_id"].encode() for server in servers]
    for server, run_id in zip(servers, run_ids, strict=True):
        server.flushall()
        server.set(NOTE, run_id + b" 0 100")
    with rlock.Client(masters3.urls, 1.0) as client, rlock.Client(masters3.urls, 1.0) as other:
        tokens = []
        for each in (client, other):
            with each.lock("x") as lock:
                tokens.append(lock.fencing_token)
        for i in range(3) if everywhere else [data.draw(st.integers(0, 2))]:
            plant(servers[i], run_ids[i], data)
        for each in (client, other, client):
            within(1.0, each.status, name="x")
            within(1.0, each.lock("x").locked)
            within(1.0, partial(each.status, "x"))
            lock = each.lock("x", fair=fair)
            got = within(2.0, lock.acquire, timeout=0.05 if everywhere else 1.0)
            assert everywhere or got is True
            if got is True:
                tokens.append(lock.fencing_token)
                assert within(1.0, lock.release) is None
        assert tokens == sorted({*tokens}), "a later holder has no greater token"
        assert tokens[-1] <= keys.MAX_TOKEN
        within(1.0, other.evict, name="x")


@pytest.mark.parametrize("beginning", [b"$8000000000\r\n", b"*9999\r\n" * 7])
def test_no_server_makes_a_client_keep_more_than_a_megabyte(beginning: bytes) -> None:
    reader = Reader()
    reader.feed(b"+OK\r\n" * 300_000)  # what has piled up is no reply
    while reader.gets() is not False:
        pass
    reader.feed(beginning)
    with pytest.raises(hiredis.ProtocolError, match="over 1 MB"):
        for _ in range(30):
            assert reader.gets() is False
            reader.feed(b":12345\r\n" * 8192)


@pytest.mark.parametrize(
    "beginning", [b"", b"+OK\r\n", b"*2\r\n$9\r\n*90000\r\n:\r\n", b"*2\r\n*1\r\n:1\r\n"]
)
@pytest.mark.parametrize("lie", [b"*10000\r\n", b"*1000000000\r\n", b">10000\r\n", b"*9\r\n*99999\r\n"])
def test_no_server_makes_a_client_keep_a_long_list_or_a_map(beginning: bytes, lie: bytes) -> None:
    """The garbage collector would visit each item of the list, although none of them has arrived."""
    for cuts in ([], [len(beginning)], range(1, len(beginning + lie))):
        reader, at = Reader(), 0
        with pytest.raises(hiredis.ProtocolError, match="an array of over 9999 items, or RESP3"):
            for cut in (*cuts, len(beginning + lie)):
                reader.feed((beginning + lie)[at:cut])
                while reader.gets() is not False:
                    pass
                at = cut


def test_a_reply_in_pieces_is_read_whatever_its_text_is() -> None:
    text = b"\r\n*99999\r\n%1\r\n"
    data = b"*3\r\n*0\r\n$-1\r\n$%d\r\n%b\r\n+OK\r\n" % (len(text), text)
    for size in range(1, len(data)):
        reader, found = Reader(), list[Any]()
        for at in range(0, 3 * len(data), size):
            reader.feed((3 * data)[at : at + size])
            while (reply := reader.gets()) is not False:
                found.append(reply)
        assert found == [[[], None, text], b"OK"] * 3
        assert len(reader._unread) < 2 * len(data), "what was read is kept"
