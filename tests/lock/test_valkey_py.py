"""valkey-py as the library that connects: its ready clients and its errors.

`.ci/versions` runs only_valkey_py.py in a Python without redis-py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis.asyncio

import rlock
from rlock._client import libraries
from rlock.testing.local.embedded import ServerBinary

from ..groups.group import ReplicatedGroup
from ..servers import PASSWORD, Fleet, acl_user
from . import tasks

valkey = pytest.importorskip("valkey", reason="valkey is in the group test")

NAMES = ("client_type", "library")
LIBRARIES = [(rlock.Client, valkey), (tasks.Client, valkey.asyncio)]
both = pytest.mark.parametrize(NAMES, LIBRARIES, ids=["blocking", "asyncio"])


def excludes(client: Any, masters: Any) -> None:
    """A lock of ``client`` and one of a client of redis-py exclude each other."""
    with rlock.Client(masters, restart_guard=0) as other:
        lock = client.lock("x")
        with lock, lock:
            assert not other.lock("x").acquire(timeout=0.1)
        with other.lock("x"):
            assert not lock.acquire(timeout=0.1)


@both
def test_ready_clients_of_valkey_py_are_masters(client_type: Any, library: Any, real_masters: Fleet) -> None:
    first, second = real_masters(2).urls
    # A quorum of two masters is both.
    for masters in (library.Valkey.from_url(first), [library.Valkey.from_url(first), f"valkey{second[5:]}"]):
        with client_type(masters) as client:
            excludes(client, real_masters(len(client.masters)).urls)


@pytest.mark.parametrize(NAMES, [*LIBRARIES, (rlock.Client, redis), (tasks.Client, redis.asyncio)])
def test_sentinels_are_asked_by_each_library(
    client_type: Any, library: Any, server: ServerBinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ReplicatedGroup(server, sentinels=1) as group:
        monkeypatch.setattr(libraries, "_installed", lambda: library.__name__.partition(".")[0])
        with client_type(group.url, restart_guard=0) as client:
            assert client._endpoints[0].library is library
            monkeypatch.undo()
            excludes(client, group.url)


@both
def test_an_error_of_valkey_py_is_handled_as_one_of_redis_py(
    client_type: Any, library: Any, fresh_real_masters: Callable[..., Fleet]
) -> None:
    (url,) = fresh_real_masters(1).urls
    # A refused question of the handshake costs no vote.
    ready = library.Valkey.from_url(acl_user(url, "joe", "~*", "&*", "+@all", "-info", "-config"))
    with client_type(ready, restart_guard=0) as client, client.lock("x") as lock:
        assert lock.is_owned()
    wrong = library.Valkey.from_url(url.replace(PASSWORD, "wrong"))
    for ready, told in ((wrong, "(?i)password"), (library.Valkey(port=1), "Error 111")):
        with client_type(ready) as client, pytest.raises(rlock.RLockError, match=told):
            client.lock("x").acquire(timeout=0.3)


def test_a_client_of_the_other_kind_is_refused() -> None:
    for master in (valkey.asyncio.Valkey(), rlock.Group(valkey.asyncio.Valkey(), 1)):
        with pytest.raises(rlock.OptionsError, match=r"a ready valkey\.Valkey"):
            rlock.Client(master)
    with pytest.raises(rlock.OptionsError, match=r"a ready valkey\.asyncio\.Valkey"):
        tasks.Client([valkey.Valkey()])
