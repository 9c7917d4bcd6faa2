"""The scripts as texts: the order of the headers, what they document, and what they may call."""

from __future__ import annotations

import re

import pytest

from ..scripted import LUA

SCRIPTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(LUA.glob("*.lua"))}

#: What Redis 6.2 to 8 and Valkey 8 and 9 share, and what the documentation tells an administrator to allow.
COMMANDS = {"hlen", "hget", "hgetall", "hset", "hdel", "del", "exists", "pexpire", "pttl", "publish", "time"}
COMMANDS |= {"zadd", "zrem", "zrange", "zpopmin", "zscore", "zcard", "get", "set", "info"}
#: Commands that only read. A replica answers them, and an operator's look uses no others.
READS = {"hlen", "hget", "hgetall", "exists", "pttl", "zrange", "zscore", "zcard", "time", "get"}
ABOUT_ONE_LOCK = {"acquire", "release", "status", "wait", "fence", "handshake", "confirm"}
#: Scripts about many locks: their inputs are in a loop, and the reply has a code for each lock.
BATCHES = {"renew", "heal"}
#: The commands that a script may use on each kind of key, beside DEL and PEXPIRE.
KINDS = {
    "lock": {"hlen", "hget", "hgetall", "hset", "hdel", "exists", "pttl"},
    "queue": {"zadd", "zrem", "zrange", "zpopmin", "zscore", "zcard"},
    "fence": {"get", "set"},
    "evicted": {"get", "set"},
    "note": {"get", "set"},
}

EVERY_SCRIPT = pytest.mark.parametrize("name", SCRIPTS)
CALL = re.compile(r"redis\.(p?call)\(\s*('?)(\w+)'?\s*(?:,\s*([^,)]+))?")
#: Names for the arguments between the first and the last ones, which may be left out.
UNPACK = re.compile(r"local ([\w, ]+) = unpack\(ARGV, (\d+), #ARGV - [12]\)")


def header(name: str) -> list[str]:
    """The comment lines at the top, without their dashes."""
    lines = []
    for line in SCRIPTS[name].splitlines():
        if not line.startswith("--"):
            break
        lines.append(line[2:].rstrip())
    return lines


def body(name: str) -> str:
    """The code without comments; `#ARGV` is n, and each argument that is unpacked has its number."""
    lines = (line.split("--")[0].rstrip() for line in SCRIPTS[name].splitlines()[len(header(name)) :])
    code = "\n".join(lines).replace(" =\n    ", " = ")
    return UNPACK.sub(_numbered, code).replace("ARGV[#ARGV", "ARGV[n")


def _numbered(unpack: re.Match[str]) -> str:
    places = range(int(unpack[2]), int(unpack[2]) + len(unpack[1].split(", ")))
    return f"local {unpack[1]} = " + ", ".join(f"ARGV[{place}]" for place in places)


def inputs(text: str) -> set[str]:
    """``KEYS[1]``, ``ARGV[2i+1]``, ...; the key behind those of all locks counts as ``KEYS[n]``."""
    text = re.sub(r"return \{ARGV\[\d\],", "", text)  # an echo
    found = {re.sub(r"[\s*]", "", word) for word in re.findall(r"(?:KEYS|ARGV)\[[^]]+\]", text)}
    return {re.sub(r"\[\d*locks\+1\]", "[n]", word) for word in found}


def documented_inputs(name: str) -> dict[str, str]:
    """Input to its name in the header."""
    told = re.findall(r"^ ((?:KEYS|ARGV)\[[^]]+\]) +(\w+) {2,}\S", "\n".join(header(name)), re.MULTILINE)
    return dict(told)


@EVERY_SCRIPT
def test_every_input_that_is_used_is_documented_and_the_other_way_round(name: str) -> None:
    assert inputs(body(name)) == set(documented_inputs(name))


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
    if name in ("renew", "status"):
        assert "'time'" not in body(name), "it gives no ticket, token, age or time"


@EVERY_SCRIPT
def test_every_key_arrives_in_keys(name: str) -> None:
    """A key that a script makes up is invisible to ACL rules and to a cluster's routing."""
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


def test_the_scripts_are_those_of_these_tests_and_use_every_allowed_command() -> None:
    assert SCRIPTS.keys() == ABOUT_ONE_LOCK | BATCHES
    used = {command for name in SCRIPTS for _, _, command, _ in CALL.findall(body(name))}
    assert used == COMMANDS


@pytest.mark.rule("3.2")
@EVERY_SCRIPT
def test_no_script_knows_a_clock_but_the_server_s(name: str) -> None:
    """Durations only: an instant of the caller's clock means nothing on another machine."""
    assert not re.search(r"\bos\.|\bmath\.random|expireat|\bnow\b", body(name))
    for argument in documented_inputs(name).values():
        assert not re.search(r"(_at|_until|now|time|clock)$", argument)
