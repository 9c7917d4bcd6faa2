"""`rlock list`: what it prints, for people and for programs."""

from __future__ import annotations

from rlock.rules.keys import owner_token, queue, waiter_name

from ..fixtures import FreshMasters
from ..servers import Fleet, raw
from .shell import ask


def test_it_prints_a_table_of_what_is_held_and_waited_for_chosen_and_sorted(masters3: Fleet) -> None:
    owners = {name: owner_token(f"web/1/{name}") for name in ("a:1", "a:2", "b:1")}
    for server in map(raw, masters3.urls):
        for name, owner in owners.items():
            server.hset(name, mapping={owner: 1})
            server.pexpire(name, 60_000)
        for number, name in ((1, "a:2"), (2, "b:1"), (1, "c:1"), (1, "{x}"), (1, "x{y")):
            for i in range(number):
                server.zadd(queue(name), {waiter_name(owner_token(f"web/2/{i}"), "s"): i})

    def names(*words: str) -> list[str]:
        code, out, _ = ask(masters3.urls, "list", *words)
        assert code == 0
        return [line.split()[0] for line in out.splitlines()[1:]]

    code, out, err = ask(masters3.urls, "list", "a:*")
    assert (code, err) == (0, "")
    head, first, second = out.splitlines()
    assert head.split() == ["NAME", "HOLDER", "HELD", "FOR", "LEASE", "COUNT", "WAITERS", "VOTES"]
    assert first.split()[:2] == ["a:1", owners["a:1"].rpartition(":")[0]]
    assert (first.split()[-2:], second.split()[-2:]) == (["-", "3/3"], ["1", "3/3"])
    assert "\x1b" not in out
    assert names() == ["a:1", "a:2", "b:1", "c:1", "x{y", "{x}"]
    # Where the braces of a hash tag stand in the key of a queue depends on those of the name.
    for pattern in ("[{]*", "\\{x\\}", "[^a-x]*"):
        assert names(pattern) == ["{x}"]
    assert names("*{*") == ["x{y", "{x}"]
    assert names("a:*") == ["a:1", "a:2"]
    assert names("?:[1]") == ["a:1", "b:1", "c:1"]
    assert names("--held") == ["a:1", "a:2", "b:1"]
    assert names("--held", "--waited") == ["a:2", "b:1"]
    assert names("?:*", "--waited", "--sort", "waiters") == ["b:1", "a:2", "c:1"]
    assert names("?:*", "--sort", "since") == ["a:1", "a:2", "b:1", "c:1"]


def test_masters_that_name_their_locks_and_refuse_to_tell_their_holders_are_no_empty_list(
    fresh_masters: FreshMasters,
) -> None:
    fleet = fresh_masters(3)
    for server in map(raw, fleet.urls):
        rules = ("~*", "&*", "+@all", "-eval", "-evalsha", "-script")
        server.execute_command("ACL", "SETUSER", "reader", "on", ">pw", *rules)
        server.hset("job", mapping={owner_token("web/1/1"): 1})
        server.pexpire("job", 60_000)
    found = ask([url.replace("//", "//reader:pw@") for url in fleet.urls], "list")
    assert (found.code, found.out) == (69, "")
    assert "0 of 3 masters answer" in found.err
    assert "no permission" in found.err.lower() or "noperm" in found.err.lower()
