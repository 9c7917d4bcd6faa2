"""The scripts as texts: the order of the headers, what they document, and what they may call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any

import pytest
import redis

from .scripted import ANNA, BEN, CARA, LOCK, LUA, QUEUE, THEIRS, TICKET, Box, Ears, token
from .servers import AnyMaster

ROOT = LUA.parent
SCRIPTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(LUA.glob("*.lua"))}

#: What Redis 6.2 to 8 and Valkey 8 and 9 share, and what the documentation tells an administrator to allow.
COMMANDS = {"hlen", "hget", "hgetall", "hset", "hdel", "del", "exists", "pexpire", "pttl", "publish", "time"}
COMMANDS |= {"zadd", "zrem", "zrange", "zpopmin", "zscore", "zcard"}
#: What a replica may be asked, too, and what an operator's look must not go beyond.
READS = {"hlen", "hget", "hgetall", "exists", "pttl", "zrange", "zscore", "zcard", "time"}
#: How many parts the reply has that the one decoder reads; the one of `renew` is about many locks.
PARTS = {"acquire": 6, "release": 4, "status": 6, "wait": 4}

EVERY_SCRIPT = pytest.mark.parametrize("name", SCRIPTS)
ABOUT_ONE_LOCK = pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "renew"])
CALL = re.compile(r"redis\.(p?call)\(\s*('?)(\w+)'?\s*(?:,\s*([^,)]+))?")
NAMING = re.compile(r"local ([\w, ]+) = ((?:KEYS|ARGV)\[\d+\](?:, (?:KEYS|ARGV)\[\d+\])*)")


def header(name: str) -> list[str]:
    """The comment lines at the top, without their dashes."""
    lines = []
    for line in SCRIPTS[name].splitlines():
        if not line.startswith("--"):
            break
        lines.append(line[2:].rstrip())
    return lines


def body(name: str) -> str:
    """The code, without header and comments."""
    lines = SCRIPTS[name].splitlines()[len(header(name)) :]
    return "\n".join(line.split("--")[0].rstrip() for line in lines)


def inputs(text: str) -> set[str]:
    """``KEYS[1]``, ``ARGV[2i+1]``, ...; a loop over all keys counts as ``KEYS[i]``."""
    found = {re.sub(r"[\s*]", "", word) for word in re.findall(r"(?:KEYS|ARGV)\[[^]]+\]", text)}
    return found | ({"KEYS[i]"} if "ipairs(KEYS)" in text else set())


def documented_inputs(name: str) -> dict[str, str]:
    """Input to its name in the header."""
    told = re.findall(r"^ ((?:KEYS|ARGV)\[[^]]+\]) +(\w+) {2,}\S", "\n".join(header(name)), re.MULTILINE)
    return dict(told)


def documented_codes(name: str) -> list[str]:
    text = "\n".join(header(name))
    reply = text[text.index("\n Reply:") : text.index("\n Second delivery:")]
    return re.findall(r"^ {2,4}(-?\d+) {2}\S", reply, re.MULTILINE)


def parts(text: str) -> list[str]:
    """The elements of a list, nested ones as a whole."""
    found, depth = [""], 0
    for character in text:
        depth += (character in "({[") - (character in ")}]")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return [part.strip() for part in found]


def replies(name: str) -> list[list[str]]:
    return [parts(reply) for reply in re.findall(r"return \{(.*)\}", body(name))]


def answered_codes(name: str) -> set[str]:
    """Every code in a reply that the body builds, by its number or in `code`."""
    code = body(name)
    given = re.findall(r"codes\[i\] = (-?\d+)", code)
    for first, *_ in replies(name):
        if first == "code":
            for value in re.findall(r"\bcode(?:, [\w, ]+)? = (.+)", code):
                given += re.findall(r"(?<![\w.])-?\d+\b", parts(value)[0])
        elif first != "echo":
            given.append(first)
    return set(given)


def naming(name: str) -> list[str]:
    """The statements at the top of the body that give the inputs their names."""
    lines = [line for line in body(name).splitlines() if line.strip()]
    return list(takewhile(NAMING.fullmatch, lines))


def test_there_are_scripts() -> None:
    assert SCRIPTS.keys() == PARTS.keys() | {"renew"}
    assert len(SCRIPTS) == 5


@EVERY_SCRIPT
def test_the_header_has_its_parts_in_the_fixed_order(name: str) -> None:
    lines = header(name)
    assert lines[0].startswith(f" {name}: "), "the first line says what the script does"
    order = ["KEYS", "ARGV", "Reply:", "Second delivery:", "Called by:"]
    starts = {part: [i for i, line in enumerate(lines) if line.startswith(f" {part}")] for part in order}
    assert all(starts.values()), f"missing: {[part for part, at in starts.items() if not at]}"
    positions = [at[0] for at in starts.values()]
    assert positions == sorted(positions)


@EVERY_SCRIPT
def test_the_header_names_its_callers_and_they_exist(name: str) -> None:
    callers = "\n".join(header(name)).partition("Called by:")[2]
    folders = re.findall(r"(rlock/[\w/]+/)\w+\.py", callers)
    assert folders
    for folder, file in re.findall(r"(rlock/[\w/]+/)?(\w+\.py)", callers):
        text = (ROOT / (folder or folders[0]) / file).read_text(encoding="utf-8")
        assert f"scripts.{name}(" in text, f"{file} does not send {name}"


@EVERY_SCRIPT
def test_every_input_that_is_used_is_documented_and_the_other_way_round(name: str) -> None:
    assert inputs(body(name)) == set(documented_inputs(name))


@EVERY_SCRIPT
def test_every_reply_code_that_is_answered_is_documented_and_the_other_way_round(name: str) -> None:
    told = documented_codes(name)
    assert set(told) == answered_codes(name)
    assert told == sorted(told, key=int, reverse=True), "from the best answer to the worst"
    assert len(told) == len(set(told))


@ABOUT_ONE_LOCK
def test_a_reply_has_the_parts_that_the_header_tells(name: str) -> None:
    told = parts(re.findall(r"^ Reply: \{(.*)\}", "\n".join(header(name)), re.MULTILINE)[0])
    assert told[:4] == ["code", "holder", "count", "ttl_ms"], "what the decoder reads of every script"
    assert len(told) == PARTS[name]
    assert replies(name)
    for reply in replies(name):
        assert len(reply) == PARTS[name], f"{reply} is not {told}"


@ABOUT_ONE_LOCK
def test_a_reply_begins_with_a_code_that_can_be_read_here(name: str) -> None:
    assert replies(name)
    for first, *_ in replies(name):
        assert re.fullmatch(r"-?\d+|code", first)


@ABOUT_ONE_LOCK  # the inputs of the other one are in its loop
def test_the_first_statements_name_every_input_as_the_header_does(name: str) -> None:
    named: dict[str, str] = {}
    for line in naming(name):
        left, _, right = line.removeprefix("local ").partition(" = ")
        named |= dict(zip(right.split(", "), left.split(", "), strict=True))
    assert named == documented_inputs(name)
    rest = "\n".join(line for line in body(name).splitlines() if line not in naming(name))
    assert not inputs(rest), "an input that is read by its number further down"
    for word in named.values():
        # "order == " compares, "barging' or" is no assignment: only "word, ... = " at a statement's start.
        assert not re.search(rf"^\s*(local )?(\w+, )*{word}(, \w+)* = ", rest, re.MULTILINE), f"{word} anew"


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
    if name != "acquire":
        assert "'time'" not in body(name), "only who draws a ticket needs to know what time it is"


@EVERY_SCRIPT
def test_every_key_arrives_in_keys(name: str) -> None:
    """A key that a script makes up is invisible to ACL rules and to a cluster's routing."""
    names = {word for place, word in documented_inputs(name).items() if place.startswith("KEYS")}
    assert names <= {"lock", "queue"}
    for _, _, command, first in CALL.findall(body(name)):
        if command == "publish":
            assert re.match(r"channel($| \.\. )", first.strip()), "a user may have leave for ours only"
        elif command == "time":
            assert not first
        else:
            assert first.strip() in names
            # The lock is a hash and the queue a sorted set, whatever the command.
            assert first.strip() == "queue" or command[0] != "z"
            assert first.strip() == "lock" or command[0] != "h"


@EVERY_SCRIPT
def test_no_call_reads_the_whole_queue(name: str) -> None:
    """It may be as long as it likes: what a call reads of it is one end, or what it was asked for."""
    ranges = set(re.findall(r"'zrange', queue, ([^,)]+, [^,)]+)", body(name)))
    allowed = {"acquire": {"0, 0", "-1, -1"}, "release": {"0, 0"}, "status": {"0, last"}}
    assert ranges == allowed.get(name, set())


@EVERY_SCRIPT
def test_every_expiry_is_a_duration_that_the_caller_gave(name: str) -> None:
    code = body(name)
    spans = {word for word in documented_inputs(name).values() if word.endswith("_ms")}
    used = set(re.findall(r"'pexpire', \w+, (\w+)\)", code))
    assert len(re.findall(r"'pexpire'", code)) == len(re.findall(r"'pexpire', \w+, \w+\)", code))
    if "local function give(holder, lease_ms)" in code:
        given = re.findall(r"(?<!function )\bgive\([\w()]+, (\w+)\)", code)
        assert len(given) == len(re.findall(r"\bgive\(", code)) - 1 > 0
        used = used - {"lease_ms"} | set(given)
    assert used <= spans
    assert bool(used) == (name != "status")


def test_every_allowed_command_is_used_by_a_script() -> None:
    used = {command for name in SCRIPTS for _, _, command, _ in CALL.findall(body(name))}
    assert used == COMMANDS


@EVERY_SCRIPT
def test_no_script_knows_a_clock_but_the_server_s(name: str) -> None:
    """Durations only: an instant of the caller's clock means nothing on another machine."""
    assert not re.search(r"\bos\.|\bmath\.random|expireat|\bnow\b", body(name))
    for argument in documented_inputs(name).values():
        assert not re.search(r"(_at|_until|now|time|clock)$", argument)


@EVERY_SCRIPT
def test_a_count_is_assigned_and_never_added_up(name: str) -> None:
    assert not re.search(r"incr|decr", body(name), re.IGNORECASE)
    for count in re.findall(r"'hset', lock, [^\n]+, ([^,\n]+)\)$", body(name), re.MULTILINE):
        assert count in ("count", "1")  # a hand-off is a first hold


@EVERY_SCRIPT
def test_only_a_release_publishes_and_to_one_waiter_or_to_all(name: str) -> None:
    told = re.findall(r"'publish', ([^\n]+)\)$", body(name), re.MULTILINE)
    if name != "release":
        assert "publish" not in body(name)
        return
    assert len(told) == 2
    assert re.fullmatch(r"channel \.\. .+, token\(first\)", told[0])
    assert told[1] == "channel, message"
    to_one, to_all = (match.start() for match in re.finditer(r"'publish'", body(name)))
    between = body(name)[to_one:to_all]
    assert re.search(r"told > 0 then\n\s*return ", between), "who reached one must not tell all as well"
    after = body(name)[to_all:].strip().splitlines()
    assert len(after) == 2, "the message to all is the last thing that happens"
    assert after[1].startswith("return ")


def test_what_frees_publishes_after_the_write() -> None:
    """Who is told looks at once, and would find the lock as it was."""
    code = body("release")
    freed, written, told = (
        code.index("call('del', lock)"),
        code.rindex("give(token(first)"),
        code.index("'publish'"),
    )
    assert freed < written < told
    assert code.index("'hset'") < code.index("'pexpire'"), "PEXPIRE of no key would do nothing"


def test_nothing_that_comes_after_the_freeing_can_raise() -> None:
    """A release that has happened must not be answered by an error; a missing permission would be one."""
    code = body("release")
    before, after = code.split("redis.call('del', lock)")
    assert "redis.pcall(" in after
    assert "redis.call(" not in after
    helpers = re.findall(r"^local function .*?^end", before, re.MULTILINE | re.DOTALL)
    assert len(helpers) == 2
    assert any("redis.pcall('hset', lock" in helper for helper in helpers)
    assert not any("redis.call(" in helper for helper in helpers)


@EVERY_SCRIPT
def test_the_text_is_plain(name: str) -> None:
    text = SCRIPTS[name]
    assert text.isascii(), "the hash that names a script must not depend on an encoding"
    assert "\r" not in text
    assert "\t" not in text
    assert text.endswith("\n")
    assert not text.startswith("#!"), "Redis 6.2 knows no script flags"
    assert max(map(len, text.splitlines())) <= 110


# -- and on every server found: what they may call is enough ----------------------------------------------

#: What README.md tells an administrator to allow. HDEL is for an acquire that may not expire, a mistake.
LEAST = {"eval", "evalsha"} | COMMANDS - {"hdel"}


def exercise(box: Box, user: Box, ears: Ears) -> list[Any]:
    """What the project asks of a master in its life; the answers, without what depends on the time."""

    def told(call: Callable[..., Any], *words: Any, **options: Any) -> None:
        try:
            reply = call(*words, **options)
        except redis.ResponseError:
            reply = ["error"]
        answers.append([part for part in reply if type(part) is not int or abs(part) < 1_000])
        answers.append((box.content(), box.waiters(), box.pttl() == -1, box.pttl(QUEUE) == -1, ears.heard()))

    answers: list[Any] = []
    for order in ("barging", "fair"):
        told(user.acquire, order=order)
        told(user.acquire, THEIRS, order=order, waiter=ANNA, ticket=TICKET)
        told(user.acquire, THEIRS, order=order, waiter=CARA, ticket=TICKET + 9)
        told(user.renew, count=2)
        told(user.renew, THEIRS)
        told(user.status)
        told(user.hand_on, waiter="none|s9")
        told(user.acquire, token(ANNA))
        told(user.wait, BEN)
        told(user.hand_on, THEIRS)
        told(user.hand_on, token(ANNA), heir=CARA)
        told(user.hand_on, token(BEN), heir=CARA)
        box.client.delete(LOCK)
        told(user.renew, THEIRS)
        told(user.wait, BEN)
        told(user.acquire, order=order, waiter=BEN)
        told(user.hand_on, waiter=BEN)
    return answers


def user_of(box: Box, commands: set[str]) -> Box:
    """Another way into the master, for one who may do no more than that with the lock."""
    scope = ("~job*", "~rlock:{job*", "resetchannels", "&rlock:{job*")
    allowed = [f"+{command}" for command in commands]
    box.client.execute_command("ACL", "SETUSER", "joe", "on", ">pw", *scope, "-@all", *allowed)
    return Box(box.url, user="joe", password="pw")


@pytest.fixture
def allowed(any_server: AnyMaster) -> Iterator[tuple[Box, Ears, list[Any]]]:
    """A master, and what it answers to one who may do everything."""
    box = Box(any_server.url)
    ears = Ears(box.client)
    ears.listen(ANNA, BEN)
    answers = exercise(box, box, ears)
    box.client.flushall()
    yield box, ears, answers
    ears.close()
    box.close()


def test_a_user_needs_no_more_than_the_least_permissions(allowed: tuple[Box, Ears, list[Any]]) -> None:
    box, ears, answers = allowed
    user = user_of(box, LEAST)
    assert exercise(box, user, ears) == answers
    assert "error" not in str(answers)
    user.close()


@pytest.mark.parametrize("missing", sorted(LEAST - {"eval", "evalsha"}))
def test_none_of_the_least_permissions_can_be_left_out(
    allowed: tuple[Box, Ears, list[Any]], missing: str
) -> None:
    box, ears, answers = allowed
    user = user_of(box, LEAST - {missing})
    assert exercise(box, user, ears) != answers
    user.close()
