"""The scripts as texts: their headers, what they may call, and the least permissions with which they work."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import rlock
from rlock._client.handshake import ConnectOptions
from rlock._sync.connections import Endpoint
from rlock._sync.runtime import run
from rlock.rules.restart_guard import NO_INFO, Guard

from ..docs.pages import marked
from ..lock.conftest import eventually, running
from ..scripted import ANNA, BEN, CARA, EVICTED, FENCE, LOCK, LUA, NOTE, READER, THEIRS, TICKET, Box, owner_of
from ..servers import AnyMaster, acl_user, raw

SCRIPTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(LUA.glob("*.lua"))}

#: What Redis 6.2 to 8 and Valkey 8 and 9 share, and what the documentation tells an administrator to allow.
COMMANDS = {"hlen", "hget", "hgetall", "hset", "hdel", "del", "exists", "pexpire", "pttl", "publish", "time"}
COMMANDS |= {"zadd", "zrem", "zrange", "zpopmin", "zscore", "zcard", "get", "set", "info"}
#: Commands that only read. A replica answers them, and an operator's look uses no others.
READS = {"hlen", "hget", "hgetall", "exists", "pttl", "zrange", "zscore", "zcard", "time", "get"}
#: The commands that a script may use on each kind of key, beside DEL and PEXPIRE.
KINDS = {
    "lock": {"hlen", "hget", "hgetall", "hset", "hdel", "exists", "pttl"},
    "queue": {"zadd", "zrem", "zrange", "zpopmin", "zscore", "zcard"},
    "fence": {"get", "set"},
    "evicted": {"get", "set", "exists"},
    "readers": {"zadd", "zrem", "zrange", "zscore"},
    "note": {"get", "set"},
}

EVERY_SCRIPT = pytest.mark.parametrize("name", SCRIPTS)
CALL = re.compile(r"redis\.(p?call)\(\s*('?)(\w+)'?\s*(?:,\s*([^,)]+))?")


def header(name: str) -> list[str]:
    """The comment lines at the top, without their dashes."""
    lines = []
    for line in SCRIPTS[name].splitlines():
        if not line.startswith("--"):
            break
        lines.append(line[2:].rstrip())
    return lines


def body(name: str) -> str:
    """The code without comments."""
    lines = (line.split("--")[0].rstrip() for line in SCRIPTS[name].splitlines()[len(header(name)) :])
    return "\n".join(lines)


def documented_inputs(name: str) -> dict[str, str]:
    """Input to its name in the header."""
    told = re.findall(r"^ ((?:KEYS|ARGV)\[[^]]+\]) +(\w+) {2,}\S", "\n".join(header(name)), re.MULTILINE)
    return dict(told)


@pytest.mark.rule("2.3")
@EVERY_SCRIPT
def test_only_commands_that_every_server_has_are_called(name: str) -> None:
    calls = CALL.findall(body(name))
    assert calls
    assert len(calls) == len(re.findall(r"redis\.", body(name))), "something else of redis.* is used"
    for _, quoted, command, _ in calls:
        assert quoted, f"{command} is computed: nobody can tell what is called"
        assert command in COMMANDS
    if name == "status":
        assert {command for _, _, command, _ in calls} <= READS
        assert "'time'" not in body(name), "it gives no ticket, token, age or time"


@EVERY_SCRIPT
def test_every_key_arrives_in_keys(name: str) -> None:
    """A cluster cannot route one that is made up. Only release does so: nobody else knows who waits there."""
    names = {word for place, word in documented_inputs(name).items() if place.startswith("KEYS")}
    assert names <= KINDS.keys()
    for _, _, command, first in CALL.findall(body(name)):
        if command == "publish":
            assert re.match(r"channel($| \.\. )", first.strip()), "a user may have leave for ours only"
        elif command == "time":
            assert not first
        elif command == "info":
            assert name == "handshake", "optional for a user"
        else:
            key = first.strip().removesuffix("_key")
            assert key in names
            assert command in KINDS[key] | {"del", "pexpire"}, f"{command} is not for the type of {key}"


def test_the_scripts_use_every_allowed_command() -> None:
    used = {command for name in SCRIPTS for _, _, command, _ in CALL.findall(body(name))}
    assert used == COMMANDS


@pytest.mark.rule("3.2")
@EVERY_SCRIPT
def test_no_script_knows_a_clock_but_the_server_s(name: str) -> None:
    """Durations only: an instant of the caller's clock means nothing on another machine."""
    assert not re.search(r"\bos\.|\bmath\.random|expireat|\bnow\b", body(name))
    for argument in documented_inputs(name).values():
        assert not re.search(r"(_at|_until|now|time|clock)$", argument)


Allowed = tuple[Box, list[tuple[Any, ...]]]  # a master, and what it answers to one who may do everything
PAGE = Path(__file__).parents[2] / "docs" / "operations.md"

LEAST = {"eval", "evalsha"} | COMMANDS  # the commands of the scripts
BESIDE = {"subscribe", "unsubscribe"}  # the commands of the client itself that it cannot do without
#: The page calls them optional: the user is told more, or is faster, with it.
OPTIONAL = {"config|get", "client|id", "client|kill", "script|load"}


def line() -> list[str]:
    """The rules that the page gives to a user of locks whose names start with `orders:`."""
    (shown,) = marked(PAGE, "tests/scripts/test_style.py")
    (words,) = re.findall(r"\AACL SETUSER worker on >secret (.*)\n\Z", shown)
    told: list[str] = words.split()
    return told


def test_the_page_allows_the_commands_that_are_needed_and_no_other() -> None:
    assert line().count("-@all") == 1
    allowed = [rule[1:] for rule in line() if rule.startswith("+")]
    assert len(allowed) == len(set(allowed))
    assert set(allowed) == LEAST | BESIDE
    assert all(line().index(f"+{command}") > line().index("-@all") for command in allowed), "taken back"


def exercise(box: Box, user: Box) -> Iterator[tuple[Any, ...]]:
    """What the project asks of a master in its life; the answers, without what depends on the time.

    Behind each: what stands on the master then, what was heard, and the keys that never end.
    """

    def told(call: Callable[..., Any], *words: Any, **options: Any) -> tuple[Any, ...]:
        try:
            reply = call(*words, **options)
        except redis.ResponseError:
            reply = ["error"]
        answer = [part for part in reply if type(part) is not int or abs(part) < 1_000]
        found = box.content(), box.waiters(), box.fenced(), box.content(EVICTED), box.content(NOTE)
        seen.update(map(str, box.client.keys()))
        endless = [key for key in seen if box.pttl(key) == -1]
        return answer, *found, box.heard(), endless

    seen: set[str] = set()
    box.client.flushall()
    box.heard()
    yield told(user.handshake, memory="vouched")
    yield told(user.handshake)
    for order in ("barging", "fair"):
        yield told(user.acquire, order=order)
        yield told(user.fence)
        yield told(user.acquire, THEIRS, order=order, waiter=ANNA, ticket=TICKET)
        yield told(user.acquire, THEIRS, order=order, waiter=CARA, ticket=TICKET + 9)
        yield told(user.acquire, THEIRS, order=order, waiter=ANNA, ticket=TICKET)  # a second delivery
        yield told(user.renew, count=2, lease_ms=120_000)
        yield told(user.renew, THEIRS)
        yield told(user.status)
        yield told(user.hand_on, waiter="none|s9")
        yield told(user.acquire, owner_of(ANNA))
        yield told(user.wait, BEN)
        yield told(user.hand_on, THEIRS)
        yield told(user.hand_on, owner_of(ANNA))
        yield told(user.hand_on, owner_of(BEN), reader=READER)
        box.client.delete(LOCK)
        yield told(user.renew, THEIRS)
        yield told(user.wait, BEN)
        yield told(user.acquire, order=order, waiter=BEN)
        box.client.delete(LOCK, FENCE)
        yield told(user.heal)
        yield told(user.hand_on, waiter=BEN, ban_ms=60_000)
        yield told(user.heal)
        yield told(user.fence, token=2**53 - 1)
        yield told(user.acquire, THEIRS)
        yield told(user.acquire, waiter=CARA)
        yield told(user.hand_on, THEIRS)  # Cara is dead
        yield told(user.acquire, waiter=CARA)
        yield told(user.transfer)
        yield told(user.hand_on, THEIRS)
        box.client.delete(EVICTED)


def user_of(box: Box, *without: str) -> Box:
    """Another way into the master, by the line of the page for the lock of these tests."""
    rules = [rule.replace("orders:", LOCK) for rule in line()]
    return Box(acl_user(box.url, "joe", *rules, *without))


@pytest.fixture
def allowed(box: Box) -> Allowed:
    box.listen(ANNA, BEN)
    return box, list(exercise(box, box))


def test_a_user_needs_no_more_than_the_least_permissions(allowed: Allowed) -> None:
    box, answers = allowed
    user = user_of(box)
    assert list(exercise(box, user)) == answers
    assert "error" not in str(answers)
    user.close()


@pytest.mark.rule("2.1")
def test_the_note_is_the_only_key_that_never_ends(allowed: Allowed) -> None:
    """However many names there are, nothing leaks; one key for each master is by design."""
    _, answers = allowed
    assert all(endless == [NOTE] for *_, endless in answers)
    assert all(any(answer[kind] for answer in answers) for kind in range(1, 6)), "a key of each kind is there"


@pytest.mark.parametrize("name", ["orders:42", "orders:{eu}:42", "orders:}"])
def test_a_client_with_the_least_permissions_is_refused_nothing_but_what_is_optional(
    any_server: AnyMaster, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """From `rlock init` to `close`, with a waiter: whose names have braces, too."""
    with raw(any_server.url) as admin:
        url = acl_user(any_server.url, "joe", *line())
        admin.execute_command("ACL", "LOG", "RESET")
        with (
            caplog.at_level(logging.WARNING, "rlock"),
            rlock.Client(url) as client,
            rlock.Client(url) as other,
        ):
            assert client.init() == dict.fromkeys(client.masters)
            lock = client.lock(name)
            assert lock.acquire(timeout=5)
            with running(lambda: other.lock(name).acquire(timeout=10)):
                assert eventually(lambda: client.status(name).queue_length == 1)
                lock.release()
            assert len(other.evict(name)) == 1
            # Closed with an answer on its way: it waits until the master has read all.
            client.lock(name).acquire(blocking=False)
        log = admin.execute_command("ACL", "LOG")
    assert caplog.text.count("NOPERM") == 0
    entries = [dict(zip(one[::2], one[1::2], strict=True)) if isinstance(one, list) else one for one in log]
    assert {str(each["object"]).lower() for each in entries} <= {*OPTIONAL, "config", "client", "script"}


def test_without_info_each_connection_has_no_vote_for_the_time_of_the_guard(box: Box) -> None:
    """A snapshot may have brought the note back, and nothing tells the user that there was a restart."""
    run_id, day_us = box.client.info("server")["run_id"], 86_400_000_000
    box.client.set(NOTE, f"{run_id} {box.time_us() - day_us} 10000")
    user, guard = user_of(box, "-info"), Guard(1, 10.0)
    for now in (100.0, 200.0):
        connection = run(Endpoint(user.url).connect(ConnectOptions(5.0)))
        guard.judge(0, connection.memory_report, now, last_reply_at=now - 1.0)
        assert guard.remaining(0, now) == pytest.approx(guard.time)
        connection.close()
    assert NO_INFO in guard.fault(0, 200.0)
    user.close()
