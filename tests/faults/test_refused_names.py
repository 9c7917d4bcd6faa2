"""An ACL that refuses some names: a master refuses a script for one key, and only its lock must suffer."""

from __future__ import annotations

import time

import pytest

import rlock

from ..lock.conftest import eventually
from ..servers import Fleet
from .conftest import ClientFor, holders
from .test_server_refusals import admin, user

NAMES = [f"job-{i}" for i in range(20)]
Locks = dict[str, rlock.RLock]


@pytest.fixture
def locks(masters3: Fleet, client_for: ClientFor) -> Locks:
    """Held under all names, on all masters."""
    client = client_for(user(masters3.urls), 1.5)
    found = {name: client.lock(name) for name in NAMES}
    for lock in found.values():
        lock.acquire()
    time.sleep(0.4)
    return found


def forbid(urls: list[str], *patterns: str) -> None:
    """Take all keys from the user but these, while it is connected."""
    for url in urls:
        with admin([url]) as [server]:
            server.execute_command(
                "ACL", "SETUSER", "worker", "resetkeys", *(f"~{each}" for each in patterns)
            )


def test_a_name_that_is_refused_from_now_on_costs_only_itself_its_lease(
    masters3: Fleet, locks: Locks
) -> None:
    """All of them are renewed in one batch, and a master refuses a script for one key of it."""
    forbid(masters3.urls, *(name for name in NAMES if name != "job-7"), "rlock:*")
    assert locks["job-7"].lost.wait(3.0)
    time.sleep(1.5)
    assert [name for name in NAMES if not locks[name].is_owned()] == ["job-7"]
    for name in NAMES:
        if name != "job-7":
            locks[name].release()


def test_a_name_that_a_minority_refuses_keeps_the_others_on_all_masters(
    masters3: Fleet, locks: Locks
) -> None:
    """Otherwise the loss of one master more would be the loss of them all."""
    forbid(masters3.urls[:1], *NAMES[1:], "rlock:*")
    time.sleep(1.8)
    for lock in locks.values():
        lock.check()
    assert holders(masters3.urls, NAMES[0])[0] is None, "it ran out there"
    for name in NAMES[1:]:
        assert None not in holders(masters3.urls, name)


def test_a_name_whose_token_is_refused_does_not_keep_the_others_from_being_healed(
    masters3: Fleet, locks: Locks
) -> None:
    forbid(masters3.urls[:1], *NAMES, "rlock:fleet", *(f"rlock:{{{name}}}:*" for name in NAMES[1:]))
    with admin(masters3.urls[:1]) as [server]:
        server.delete(*NAMES)
    assert eventually(lambda: all(holders(masters3.urls[:1], name)[0] for name in NAMES[1:]), 3.0)
    for lock in locks.values():
        lock.check()
