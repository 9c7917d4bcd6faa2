"""`rlock doctor` and permissions: it names exactly what is missing, and the line that it prints mends it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rlock.cli.doctor.acl import COMMANDS, OPTIONAL, Scope

from ..servers import AnyMaster, raw
from .doctoring import Seen, doctor, label

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
KEYS = ["~orders:*", "~rlock:{orders:*", "~rlock::orders:*", "~rlock:fleet"]
CHANNELS = ["&rlock:{orders:*", "&rlock::orders:*"]
SCOPE = [*KEYS, "resetchannels", *CHANNELS]
ALL = [f"+{command}" for command in COMMANDS]
MORE = [f"+{command}" for command in OPTIONAL]


def test_the_page_of_operations_tells_the_permissions_that_the_code_knows() -> None:
    (words,) = re.findall(r"^ACL SETUSER worker on >secret (.*)$", PAGE, re.MULTILINE)
    assert words.split() == Scope("orders:*").rules()


def setuser(master: AnyMaster, *rules: str) -> str:
    """A user with these rules, and the URL of the master for it."""
    admin = raw(master.url)
    admin.execute_command("ACL", "DELUSER", "joe")
    admin.execute_command("ACL", "SETUSER", "joe", "on", ">pw", "-@all", *rules)
    admin.close()
    return master.url.replace("redis://", "redis://joe:pw@")


def look(url: str, *words: str) -> Seen:
    return doctor([url], *(words or ("--name", "orders:*")))


def without(*left_out: str) -> list[str]:
    rules = [*SCOPE, *ALL, *MORE]
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
    with raw(master.url) as admin:
        for command in found["commands"]:
            assert command.startswith("ACL SETUSER joe ")
            admin.execute_command(*command.split())


@pytest.mark.parametrize("case", CASES)
def test_what_is_missing_is_named_exactly_and_the_printed_line_mends_it(
    any_server: AnyMaster, case: str
) -> None:
    rules, missing = CASES[case]
    url = setuser(any_server, *rules)
    seen = look(url)
    assert seen.code == 1
    assert set(seen.masters[0]["missing_permissions"]) == missing
    (found,) = errors(seen)
    assert found["master"] == label(url)
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
    seen = look(url, "--name", "orders:42")
    assert not seen.of("permissions")
    assert not seen.of("writes")
    assert seen.code == 0
    missing = look(url, "--name", "orders:43").one("permissions")
    assert missing["commands"] == ["ACL SETUSER joe ~orders:43 ~rlock:{orders:43}:* &rlock:{orders:43}:*"], (
        "and no others that begin so"
    )
    mend(any_server, missing)
    assert not look(url, "--name", "orders:43").of("permissions")


@pytest.mark.parametrize(
    ("name", "channels"),
    [
        ("orders:*", ["&redisson_lock__channel:{orders:*", "&redisson_lock__channel:orders:*"]),
        ("orders:42", ["&redisson_lock__channel:{orders:42}", "&redisson_lock__channel:{orders:42}|*"]),
    ],
)
def test_of_a_lock_that_is_shared_with_redisson_the_channels_are_its(
    any_server: AnyMaster, name: str, channels: list[str]
) -> None:
    # The permissions for rlock without Java. With them a waiter of a shared lock receives no message.
    url = setuser(any_server, "~*", "resetchannels", "&rlock:*", *ALL, *MORE)
    seen = doctor([url], "--name", name, interop="redisson")
    assert seen.masters[0]["missing_permissions"] == channels
    mend(any_server, seen.one("permissions"))
    assert not doctor([url], "--name", name, interop="redisson").of("permissions")
