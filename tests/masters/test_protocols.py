"""The contract in short on each server, with masters whose settings say RESP2 and RESP3.

The connections of rlock speak RESP2 in any case: `protocol` of a URL or a ready client must not break them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import redis
import redis.asyncio

import rlock

from ..lock import tasks
from ..lock.conftest import eventually, in_background, in_thread
from ..servers import AnyMaster, left, raw

KINDS: dict[str, tuple[Any, Any]] = {
    "blocking": (rlock.Client, redis.Redis),
    "asyncio": (tasks.Client, redis.asyncio.Redis),
}


@pytest.mark.parametrize(
    ("kind", "ready", "protocol"),
    [("blocking", False, 3), ("blocking", True, 2), ("asyncio", False, 2), ("asyncio", True, 3)],
)
def test_the_contract_with_each_protocol(
    any_server: AnyMaster, kind: str, ready: bool, protocol: int
) -> None:
    client_type, redis_type = KINDS[kind]
    url = f"{any_server.url}?protocol={protocol}"
    masters: Any = [redis_type.from_url(url)] if ready else [url]
    server = raw(any_server.url)
    known = [one["id"] for one in server.client_list()]
    with client_type(masters, ttl=0.9) as client, client_type(masters, ttl=0.9) as other:
        for fair in (False, True):
            lock, theirs = (each.lock("x", fair=fair) for each in (client, other))

            def wait_for_it(theirs: rlock.RLock = theirs) -> int:
                with theirs:
                    return theirs.fencing_token

            with lock, lock:
                assert (lock.hold_count, lock.locked()) == (2, True)
                assert in_thread(partial(lock.acquire, blocking=False)) is False
                assert (
                    theirs.acquire(timeout=1.0 if fair else 0.0) is False
                )  # renewed for longer than the ttl
                token = lock.fencing_token
                waiter = in_background(wait_for_it)
                assert eventually(lambda: client.status("x").queue_length)
            assert waiter.result(20) > token
            assert client.status("x").free
        new = [one for one in server.client_list() if one["id"] not in known]
        assert {one.get("resp", "2") for one in new} == {"2"}, "rlock speaks RESP2 in any case"
    server.close()
    assert left(any_server.url) == []
