"""`rlock doctor`: it names each fault, on the right master, and the line that it prints mends it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

import rlock
from evidence.neighbours.faults import server
from rlock.cli.doctor.acl import COMMANDS, OPTIONAL, Scope
from rlock.rules.keys import NOTE

from ..faults.proxy import Proxy
from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..scripts.test_style import line
from ..servers import PASSWORD, AnyMaster, Fleet, acl_user, left, name_of, raw, tell
from .shell import inside

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def good(fresh_masters: FreshMasters) -> Fleet:
    """Three masters as the documentation wants them."""
    return fresh_masters(3, args=(*DURABLE, "--masterauth", PASSWORD))  # one may become a replica


@dataclass(frozen=True)
class Seen:
    code: int
    masters: list[dict[str, Any]]
    findings: list[dict[str, Any]]

    def of(self, check: str) -> list[dict[str, Any]]:
        return [finding for finding in self.findings if finding["check"] == check]

    def one(self, check: str) -> dict[str, Any]:
        found = self.of(check)
        assert len(found) == 1, f"{check}: {found or [finding['what'] for finding in self.findings]}"
        return found[0]

    def bad(self) -> list[tuple[str, str, str | None]]:
        """Errors and warnings: severity, check, master."""
        return [(f["severity"], f["check"], f["master"]) for f in self.findings if f["severity"] != "note"]


def doctor(urls: Sequence[str], *words: str, measure: float = 0, **settings: str) -> Seen:
    """``rlock doctor --json`` in this process."""
    # Long, so that a busy machine is not taken for slow masters.
    own = {"RLOCK_REQUEST_TIMEOUT": "1"} | {f"RLOCK_{key.upper()}": value for key, value in settings.items()}
    found = inside("doctor", "--json", "--measure", str(measure), *words, masters=urls, **own)
    told = json.loads(found.out)
    assert all(finding["what"] and finding["why"] and finding["action"] for finding in told["findings"])
    return Seen(found.code, told["masters"], told["findings"])


ALL = [f"+{command}" for command in COMMANDS]
MORE = [f"+{command}" for command in OPTIONAL]


def test_the_page_of_operations_tells_the_permissions_that_the_code_knows() -> None:
    assert line() == Scope("orders:*").rules()


def setuser(master: AnyMaster, *rules: str) -> str:
    """A user with these rules, and the URL of the master for it."""
    return acl_user(master.url, "joe", "-@all", *rules)


def look(url: str, name: str = "orders:*") -> Seen:
    return doctor([url], "--name", name)


def without(*left_out: str) -> list[str]:
    rules = Scope("orders:*").rules()
    assert {*left_out} <= {*rules}
    return [rule for rule in rules if rule not in left_out]


#: The permissions of the user, and the missing ones that doctor names.
CASES = {
    "one command": (without("+zadd"), {"+zadd"}),
    "PUBLISH": (without("+publish"), {"+publish"}),
    "a command, a key and the channels": (
        without("+zadd", "~rlock:fleet", "&rlock:{orders:*"),
        {"+zadd", "~rlock:fleet", "&rlock:{orders:*"},
    ),
    # A command that is refused tells nothing of keys and channels: those are named the second time.
    "a key, where scripts are not allowed": (
        without("+evalsha", "+eval", "~rlock:fleet"),
        {"+evalsha", "+eval"},
    ),
    "everything": ([], {*ALL}),
}


def errors(seen: Seen) -> list[dict[str, Any]]:
    return [finding for finding in seen.of("permissions") if finding["severity"] == "error"]


def mend(master: AnyMaster, found: dict[str, Any]) -> None:
    for command in found["commands"]:
        assert command.startswith("ACL SETUSER joe ")
        tell([master.url], *command.split())


@pytest.mark.parametrize("case", CASES)
def test_what_is_missing_is_named_and_the_printed_line_mends_it(any_server: AnyMaster, case: str) -> None:
    rules, missing = CASES[case]
    url = setuser(any_server, *rules)
    seen = look(url)
    assert seen.code == 1
    assert set(seen.masters[0]["missing_permissions"]) == missing
    (found,) = errors(seen)
    assert found["master"] == name_of(url)
    for rule in missing:
        assert rule.lstrip("+") in found["what"]
    again = "run this again" in found["action"]
    assert again == bool({"+evalsha", "+publish"} & missing)
    mend(any_server, found)
    after = look(url)
    if again and errors(after):
        mend(any_server, *errors(after))
        after = look(url)
    assert not errors(after)
    assert not after.of("writes")
    assert after.code == 0


def test_the_permissions_of_one_name_are_enough_for_it(any_server: AnyMaster) -> None:
    rules = ["~orders:42", "~rlock:{orders:42}:*", "~rlock:fleet", "resetchannels", "&rlock:{orders:42}:*"]
    url = setuser(any_server, *rules, *ALL, *MORE)
    seen = look(url, "orders:42")
    assert not seen.of("permissions")
    assert not seen.of("writes")
    assert seen.code == 0
    missing = look(url, "orders:43").one("permissions")
    assert missing["commands"] == ["ACL SETUSER joe ~orders:43 ~rlock:{orders:43}:* &rlock:{orders:43}:*"]
    mend(any_server, missing)
    assert not look(url, "orders:43").of("permissions")


@pytest.mark.parametrize(
    ("name", "channels"),
    [
        ("orders:*", ["&redisson_lock__channel:{orders:*", "&redisson_lock__channel:orders:*"]),
        ("orders:42", ["&redisson_lock__channel:{orders:42}", "&redisson_lock__channel:{orders:42}|*"]),
    ],
)
def test_redissons_channels_are_asked_for(any_server: AnyMaster, name: str, channels: list[str]) -> None:
    # The permissions for rlock without Java. With them a waiter of a shared lock receives no message.
    url = setuser(any_server, "~*", "resetchannels", "&rlock:*", *ALL, *MORE)
    seen = doctor([url], "--name", name, interop="redisson")
    assert seen.masters[0]["missing_permissions"] == channels
    mend(any_server, seen.one("permissions"))
    assert not doctor([url], "--name", name, interop="redisson").of("permissions")


def test_three_masters_that_are_set_up_well_have_no_finding_and_nothing_is_changed(good: Fleet) -> None:
    def state() -> list[Any]:
        return [(sorted(raw(url).keys()), raw(url).config_get("*"), raw(url).get(NOTE)) for url in good.urls]

    with rlock.Client(good.urls) as client, client.lock("orders:42"):
        assert eventually(lambda: all("orders:42" in left(url) for url in good.urls))
        assert eventually(lambda: all(str(raw(url).get(NOTE)).endswith(" 10000") for url in good.urls))
        before = state()
        seen = doctor(good.urls, "--name", "orders:*", measure=1)
        assert (seen.code, seen.bad()) == (0, [])
        assert doctor(good.urls, "--name", "orders:42").bad() == []
        assert state() == before, "keys with their fencing tokens, settings, the note"
    assert {finding["check"] for finding in seen.findings} <= {"hosts"}
    assert [master["master"] for master in seen.masters] == [name_of(url) for url in good.urls]
    for master in seen.masters:
        assert master["durable"] is True
        assert abs(master["clock_rate"]) < 0.01
        assert master["latency"] < 0.5


#: Faults of a master: the command that makes it, the finding, and a command that doctor prints.
FAULTS = {
    "evicts": ("CONFIG SET maxmemory 1gb maxmemory-policy volatile-ttl", "eviction", "error", ""),
    "keeps nothing": ("CONFIG SET appendonly no", "durability", "note", "CONFIG SET appendonly yes"),
    "a replica": ("REPLICAOF 127.0.0.1 {port}", "role", "error", "REPLICAOF NO ONE"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_master_is_found_and_the_printed_command_mends_it(good: Fleet, fault: str) -> None:
    command, check, severity, remedy = FAULTS[fault]
    tell(good.urls[1:2], *command.format(port=good.urls[0].rpartition(":")[2]).split())
    if check == "role":
        assert eventually(lambda: raw(good.urls[0]).info("replication")["connected_slaves"] == 1, 20)
    seen = doctor(good.urls)
    (found,) = [each for each in seen.of(check) if each["master"] == name_of(good.urls[1])]
    assert found["severity"] == severity
    assert seen.code == (1 if severity == "error" else 0)
    assert remedy in (*found["commands"], "")
    for printed in found["commands"]:
        if printed != "CONFIG REWRITE":  # the file of a test's master
            tell(good.urls[1:2], *printed.replace("'", "").split(" ", 3))
    assert eventually(lambda: raw(good.urls[1]).info("persistence")["aof_rewrite_in_progress"] == 0)
    assert not doctor(good.urls).of(check)


def test_what_is_no_master_and_what_is_silent_are_told_by_what_they_do(good: Fleet) -> None:
    with server(lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n") as web:
        good[2].pause()
        seen = doctor([good.urls[0], f"redis://{web}", good.urls[2]], request_timeout="0.5")
    told = {each["master"]: each for each in seen.of("reachable")}
    for url, what, action in (
        (f"redis://{web}", "another protocol", "correct the port"),
        (name_of(good.urls[2]), "no answer in time", "firewall"),
    ):
        assert what in told[url]["what"]
        assert action in told[url]["action"]


def test_a_master_whose_messages_do_not_arrive_is_named(good: Fleet) -> None:
    with closing(Proxy(good.urls[1])) as proxy:
        proxy.forget_subscribers(later_ones=True)
        found = doctor([good.urls[0], proxy.url, good.urls[2]], request_timeout="0.5").one("one-server")
    assert (found["master"], found["severity"]) == (name_of(proxy.url), "error")
    assert "reached no subscriber" in found["what"]


def test_warnings_pass_unless_strict_and_fewer_than_a_quorum_are_exit_status_69(good: Fleet) -> None:
    def shell(urls: list[str], *words: str) -> tuple[int, str]:
        found = inside("doctor", "--measure", "0", *words, masters=urls, RLOCK_REQUEST_TIMEOUT="1")
        return found.code, found.out

    assert shell(good.urls, "--strict")[0] == 0
    tell(good.urls[1:2], "CONFIG", "SET", "tcp-keepalive", "0")
    assert shell(good.urls)[0] == 0
    assert shell(good.urls, "--strict")[0] == 1
    code, out = shell([good.urls[0], "redis://127.0.0.1:1", "redis://127.0.0.1:2"])
    assert code == 69
    assert "1 of 3 masters can be reached, 2 are needed" in out
    assert out.splitlines()[-1].startswith("1 of 3 masters answered, quorum 2: 3 errors")
