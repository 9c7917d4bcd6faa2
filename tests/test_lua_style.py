"""The scripts as texts: the order of the headers, what they document, and what they may call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

LUA = Path(__file__).parents[1] / "lua"
ROOT = LUA.parent
SCRIPTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(LUA.glob("*.lua"))}

#: What Redis 6.2 to 8 and Valkey 8 and 9 share, and what the documentation tells an administrator to allow.
COMMANDS = {"hlen", "hget", "hgetall", "hset", "hdel", "del", "exists", "pexpire", "pttl", "publish"}
#: What a replica may be asked, too, and what an operator's look must not go beyond.
READS = {"hlen", "hget", "hgetall", "exists", "pttl"}

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


def answered_codes(name: str) -> set[str]:
    """Every code in a reply that the body builds."""
    return set(re.findall(r"return \{(-?\d+)[,}]", body(name))) | set(
        re.findall(r"codes\[i\] = (-?\d+)", body(name))
    )


def test_there_are_scripts() -> None:
    assert {"acquire", "renew", "release", "status", "evict"} <= SCRIPTS.keys()


@EVERY_SCRIPT
def test_the_header_has_its_parts_in_the_fixed_order(name: str) -> None:
    lines = header(name)
    assert lines[0].startswith(f" {name}: "), "the first line says what the script does"
    parts = ["KEYS", "ARGV", "Reply:", "Second delivery:", "Called by:"]
    if name == "status":
        parts.remove("ARGV")
    starts = {part: [i for i, line in enumerate(lines) if line.startswith(f" {part}")] for part in parts}
    assert all(starts.values()), f"missing: {[part for part, at in starts.items() if not at]}"
    positions = [at[0] for at in starts.values()]
    assert positions == sorted(positions)
    assert "ARGV" in parts or not any(line.startswith(" ARGV") for line in lines)


@EVERY_SCRIPT
def test_the_header_names_its_callers_and_they_exist(name: str) -> None:
    callers = "\n".join(header(name)).partition("Called by:")[2]
    paths = re.findall(r"rlock/[\w/]+\.py", callers)
    assert paths
    for path in paths:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"\b{name}\b", text), f"{path} does not speak of {name}"


@EVERY_SCRIPT
def test_every_input_that_is_used_is_documented_and_the_other_way_round(name: str) -> None:
    assert inputs(body(name)) == set(documented_inputs(name))


@EVERY_SCRIPT
def test_every_reply_code_that_is_answered_is_documented_and_the_other_way_round(name: str) -> None:
    told = documented_codes(name)
    assert set(told) == answered_codes(name)
    assert told == sorted(told, key=int, reverse=True), "from the best answer to the worst"
    assert len(told) == len(set(told))


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "renew"])  # it is about many
def test_a_reply_about_one_lock_has_four_parts(name: str) -> None:
    for reply in re.findall(r"return \{(.*)\}", body(name)):
        depth, parts = 0, 1
        for character in reply:
            depth += (character in "({[") - (character in ")}]")
            parts += character == "," and depth == 0
        assert parts == 4, f"{{{reply}}} is not code, holder, count, ttl_ms"


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "renew"])  # its inputs are in its loop
def test_the_first_statement_names_every_input_as_the_header_does(name: str) -> None:
    first = next(line for line in body(name).splitlines() if line.strip())
    left, _, right = first.removeprefix("local ").partition(" = ")
    named = dict(zip(right.split(", "), left.split(", "), strict=True))
    assert named == documented_inputs(name)
    rest = body(name).replace(first, "", 1)
    assert not inputs(rest), "an input that is read by its number further down"


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


@EVERY_SCRIPT
def test_every_key_arrives_in_keys(name: str) -> None:
    """A key that a script makes up is invisible to ACL rules and to a cluster's routing."""
    for _, _, command, first in CALL.findall(body(name)):
        assert first.strip() == ("channel" if command == "publish" else "lock")


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


@EVERY_SCRIPT
def test_what_frees_publishes_once_and_after_the_write(name: str) -> None:
    code = body(name)
    published = [match.start() for match in re.finditer(r"'publish'", code)]
    if name not in ("release", "evict"):
        assert not published
        return
    assert len(published) == 1
    assert code.index("'del'") < published[0]
    assert "redis.pcall('publish'" in code, "an ACL without +publish would turn a release into an error"


@EVERY_SCRIPT
def test_the_text_is_plain(name: str) -> None:
    text = SCRIPTS[name]
    assert text.isascii(), "the hash that names a script must not depend on an encoding"
    assert "\r" not in text
    assert "\t" not in text
    assert text.endswith("\n")
    assert not text.startswith("#!"), "Redis 6.2 knows no script flags"
    assert max(map(len, text.splitlines())) <= 110
