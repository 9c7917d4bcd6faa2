"""The scripts as texts: the order of the headers, what they document, and what they may call."""

from __future__ import annotations

import re

import pytest

from .scripted import LUA

SCRIPTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(LUA.glob("*.lua"))}

#: What Redis 6.2 to 8 and Valkey 8 and 9 share, and what the documentation tells an administrator to allow.
COMMANDS = {"hlen", "hget", "hgetall", "hset", "hdel", "del", "exists", "pexpire", "pttl", "publish", "time"}
COMMANDS |= {"zadd", "zrem", "zrange", "zpopmin", "zscore", "zcard", "get", "set", "info"}
#: What a replica may be asked, too, and what an operator's look must not go beyond.
READS = {"hlen", "hget", "hgetall", "exists", "pttl", "zrange", "zscore", "zcard", "time", "get"}
#: How many parts the reply has that the one decoder reads.
PARTS = {"acquire": 9, "release": 5, "status": 7, "wait": 4, "fence": 5, "handshake": 5}
#: Scripts about many locks: their inputs are in a loop, and the reply has a code for each lock.
BATCHES = {"renew", "heal"}
#: What a script may do with each kind of key, beside DEL and PEXPIRE.
KINDS = {
    "lock": {"hlen", "hget", "hgetall", "hset", "hdel", "exists", "pttl"},
    "queue": {"zadd", "zrem", "zrange", "zpopmin", "zscore", "zcard"},
    "fence": {"get", "set"},
    "evicted": {"get", "set"},
    "note": {"get", "set"},
}

EVERY_SCRIPT = pytest.mark.parametrize("name", SCRIPTS)
ABOUT_ONE_LOCK = pytest.mark.parametrize("name", [name for name in SCRIPTS if name not in BATCHES])
CALL = re.compile(r"redis\.(p?call)\(\s*('?)(\w+)'?\s*(?:,\s*([^,)]+))?")
#: Names for the arguments between the first and the last ones, which may be left out.
UNPACK = re.compile(r"local ([\w, ]+) = unpack\(ARGV, (\d+), #ARGV - [12]\)")
SET = re.compile(r"redis\.p?call\('set', (\w+), (.*?)\)$", re.MULTILINE)


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
    given = re.findall(r"codes\[i\](?:, \w+)? = (-?\d+)", code)
    for first, *_ in replies(name):
        if first == "code":
            for value in re.findall(r"\bcode(?:, [\w, ]+)? = (.+)", code):
                given += re.findall(r"(?<![\w.])-?\d+\b", parts(value)[0])
        elif name not in BATCHES:
            given.append(first)
    return set(given)


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
    meant = {"fence": ["code", "owner", "0", "0"], "handshake": ["code", "note", "0", "0"]}
    of_a_lock = ["code", "holder", "count", "ttl_ms"]
    assert told[:4] == meant.get(name, of_a_lock), "what the decoder reads of every script"
    assert len(told) == PARTS[name]
    assert replies(name)
    for reply in replies(name):
        assert len(reply) == PARTS[name], f"{reply} is not {told}"
        assert re.fullmatch(r"-?\d+|code", reply[0])


@pytest.mark.parametrize("name", sorted(BATCHES))
def test_a_reply_about_many_locks_is_an_echo_the_codes_and_the_note(name: str) -> None:
    assert "\n Reply: {owner, codes, note}: the first owner, as an echo" in "\n".join(header(name))
    ((first, codes, note),) = replies(name)
    owner = next(place for place, word in documented_inputs(name).items() if word == "owner")
    assert first == owner.replace("i", ""), "of the first lock"
    read = "note_key and redis.call('get', note_key) or ''"
    assert (codes, note in (read, "note"), read in body(name)) == ("codes", True, True)


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
    if name not in ("acquire", "release", "heal", "fence", "handshake"):
        assert "'time'" not in body(name), (
            "only who gives a ticket, a token or an age, or keeps a token, need know what time it is"
        )


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


@EVERY_SCRIPT
def test_no_call_reads_the_whole_queue(name: str) -> None:
    """It may be as long as it likes: what a call reads of it is one end, or what it was asked for."""
    ranges = set(re.findall(r"'zrange', queue, ([^,)]+, [^,)]+)", body(name)))
    allowed = {"acquire": {"0, 0", "-1, -1"}, "release": {"0, 0"}, "status": {"0, last"}}
    assert ranges == allowed.get(name, set())


@pytest.mark.rule("3.2")
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
    for key, ends in SET.findall(code):
        expiry = re.search(r", 'px', (\w+)$", ends)
        if key.removesuffix("_key") != "note":  # its end would tell of a loss of memory
            assert expiry, f"a {key} that stays for ever"
            used.add(expiry[1])
        else:
            assert not re.search(r"'(px|ex|pxat|exat|keepttl)'", ends, re.IGNORECASE)
    assert len(SET.findall(code)) == code.count("'set'")
    if "kept_ms" in used:
        # A token that is ahead of the clock is kept longer by the difference.
        longer = set(re.findall(r"\bkept_ms = (str.+)", code))
        assert longer == {"string.format('%.0f', fence_ms + (token - now_us) / 1000)"}
        used = used - {"kept_ms"} | {"fence_ms"}
    assert used <= spans
    assert bool(used) == (name not in ("status", "handshake"))


def test_the_age_in_the_note_is_written_by_one_script_and_without_an_expiry() -> None:
    """The end of the note tells of a loss of memory; see test_lua_handshake.py, too."""
    writers = [name for name in SCRIPTS if re.search(r"'(set|pexpire|del)', note", body(name))]
    assert writers == ["acquire", "handshake", "heal"]
    for name in ("acquire", "heal"):
        assert re.findall(r"^ +note = (.*)", body(name), re.MULTILINE) == ["known .. ' ' .. lease_ms"]
        # `known` is the run_id and the age, as they stand there.
        assert "known, longest = string.match(note, '^(%S* %d+) (%d+)$')" in body(name)


@pytest.mark.parametrize("name", ["acquire", "release", "heal", "fence"])
def test_a_fencing_token_is_stored_with_its_owner_and_read_with_it(name: str) -> None:
    """One format for the four that share the key; a number above 2^31 must not be rounded in it."""
    code = body(name)
    (ends,) = (ends for key, ends in SET.findall(code) if key == "fence")
    number, owner = re.fullmatch(r"(.+) \.\. (\w+), 'px', kept_ms", ends).groups()  # type: ignore[union-attr]
    assert number == ("token .. ' '" if name in ("heal", "fence") else "number .. ' '")
    # As it was sent, or so that all of its digits are written.
    written = re.findall(r"\bnumber = (.+)", code)
    assert set(written) <= {
        "given > token and proposal",
        "now_us, false",
        *(f"string.format('%.0f', {word})" for word in ("token", "given")),
    }
    assert owner == ("next_owner" if name == "release" else "owner")
    patterns = re.findall(r"string\.match\(.* or '', ('[^']+')\)", code)
    assert patterns == ["'^(%d+) '" if name == "heal" else "'^(%d+) (.*)$'"]


@pytest.mark.parametrize("name", ["acquire", "release"])
def test_there_is_no_lock_without_a_token(name: str) -> None:
    """What may be refused (memory, an ACL) is done before the grant."""
    code = body(name)
    if name == "acquire":
        assert code.index("'get', fence") < code.index("'set', fence") < code.index("'hset', lock")
        assert code.count("'hset', lock") == 1
        assert re.findall(r"redis\.(\w+)\('[gs]et', fence", code) == ["call", "call"], "or an error is no end"
    else:
        assert code.count("stamp()") == 2
        assert re.search(
            r"local token = .*\bstamp\(\)\n\s*if token and give\(next_owner, next_lease_ms\) then", code
        )


def test_the_scripts_are_those_of_these_tests_and_use_every_allowed_command() -> None:
    assert SCRIPTS.keys() == PARTS.keys() | BATCHES
    used = {command for name in SCRIPTS for _, _, command, _ in CALL.findall(body(name))}
    assert used == COMMANDS


@pytest.mark.rule("3.2")
@EVERY_SCRIPT
def test_no_script_knows_a_clock_but_the_server_s(name: str) -> None:
    """Durations only: an instant of the caller's clock means nothing on another machine."""
    assert not re.search(r"\bos\.|\bmath\.random|expireat|\bnow\b", body(name))
    for argument in documented_inputs(name).values():
        assert not re.search(r"(_at|_until|now|time|clock)$", argument)


@pytest.mark.rule("3.3")
@EVERY_SCRIPT
def test_a_count_is_assigned_and_never_added_up(name: str) -> None:
    assert not re.search(r"incr|decr", body(name), re.IGNORECASE)
    counts = re.findall(r"'hset', lock, \w+, '?(\w+)'?\)", body(name))
    assert len(counts) == body(name).count("'hset'")
    assert set(counts) <= {"count", "1"}  # a hand-off is a first hold


@EVERY_SCRIPT
def test_only_a_release_publishes_and_to_one_waiter_or_to_all(name: str) -> None:
    told = re.findall(r"'publish', ([^\n]+)\)$", body(name), re.MULTILINE)
    if name != "release":
        assert "publish" not in body(name)
        return
    assert len(told) == 3
    assert told[0] == "channel .. client_id, holder"
    assert told[1] == "channel .. client_id, ''", "which asks whether somebody is there"
    assert told[2] == "channel, text"
    assert "local text = message and message ~= '' and message ~= 'owner' and message or owner" in body(name)
    to_one, asked, to_all = (match.start() for match in re.finditer(r"'publish'", body(name)))
    between = body(name)[to_one:asked]
    assert re.search(r"told > 0 then\n\s*return ", between), "who reached one must not tell all as well"
    after = body(name)[to_all:].strip().splitlines()
    assert len(after) == 2, "the message to all is the last thing that happens"
    assert after[1].startswith("return ")


def test_what_frees_publishes_after_the_write() -> None:
    """Who is told looks at once, and would find the lock as it was."""
    code = body("release")
    freed, written = code.index("call('del', lock)"), code.rindex("give(holder, claim_ms)")
    assert freed < written < code.index("'publish'")
    assert code.index("'hset'") < code.index("'pexpire'"), "PEXPIRE of no key would do nothing"


def test_nothing_that_comes_after_the_freeing_can_raise() -> None:
    """A release that has happened must not be answered by an error; a missing permission would be one."""
    code = body("release")
    before, after = code.split("redis.call('del', lock)")
    for write in ("'hset', lock", "'set', fence"):
        assert f"redis.pcall({write}" in after
    assert "redis.call(" not in after
    assert "function" not in before


@pytest.mark.parametrize("name", ["acquire", "release"])
def test_where_nobody_waits_no_function_is_made(name: str) -> None:
    """Lua makes it anew with each call, for as much as a command costs."""
    code = body(name)
    if name == "release":
        code, _, waits = code.partition("\nif first or next_waiter or claim_ms == '0' then\n")
        inside, _, behind = waits.partition("\nend\n")
        assert "function" in inside
        code += behind
    assert "function" not in code


@EVERY_SCRIPT
def test_the_text_is_plain(name: str) -> None:
    text = SCRIPTS[name]
    assert text.isascii(), "the hash that names a script must not depend on an encoding"
    assert not {"\r", "\t"} & {*text}
    assert text.endswith("\n")
    assert not text.startswith("#!"), "Redis 6.2 knows no script flags"
    assert max(map(len, text.splitlines())) <= 110
