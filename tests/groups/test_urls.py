"""URLs and ready clients of groups: what they mean, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

import rlock
import rlock.asyncio
from rlock._async.connections import Endpoint as AsyncEndpoint
from rlock._sync.connections import Endpoint
from rlock.rules.keys import NOTE
from rlock.testing.local.embedded import Master

from ..servers import AnyMaster, default_server, raw

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "sentinel.md"
URL = "redis+sentinel://s1:26379,s2:26380,s3/mymaster?replicas=1"
#: Everything that such a URL can say.
WHOLE = (
    "rediss+sentinel://joe:a%2Fb@s1:26379,s2/orders?replicas=2&db=3&sentinel_username=watch"
    "&sentinel_password=p%40w&sentinel_tls=no&ssl_cert_reqs=none"
)


def test_the_page_shows_urls_and_clients_that_can_be_used() -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = [part.partition("```")[0] for part in text.split("```python\n")[1:]]
    assert len(blocks) == 2
    exec("".join(blocks), {})


@pytest.mark.parametrize("kind", [Endpoint, AsyncEndpoint])
def test_a_url_says_who_is_asked_and_with_what(kind: type[Endpoint] | type[AsyncEndpoint]) -> None:
    endpoint = kind(WHOLE)
    connection = endpoint.connection(1.0)
    assert (endpoint.replicas, connection.db, connection.username, connection.password) == (
        2,
        3,
        "joe",
        "a/b",
    )
    assert isinstance(connection, endpoint.library.sentinel.SentinelManagedSSLConnection)
    service = endpoint.service
    assert service is not None
    asked = [one.connection(1.0) for one in service.sentinels]
    assert service.service_name == "orders"
    assert [(one.host, one.port, one.username, one.password) for one in asked] == [
        ("s1", 26379, "watch", "p@w"),
        ("s2", 26379, "watch", "p@w"),
    ]
    assert not isinstance(asked[0], endpoint.library.SSLConnection)
    assert endpoint.label == "rediss+sentinel://s1:26379,s2:26379/orders"


@pytest.mark.parametrize(
    ("master", "label"),
    [
        (
            rlock.Group(redis.sentinel.Sentinel([("s1", 1), ("s2", 2)]), 1, "m"),
            "redis+sentinel://s1:1,s2:2/m",
        ),
        (rlock.Group(redis.sentinel.Sentinel([("s1", 1)]).master_for("m"), 1), "redis+sentinel://s1:1/m"),
        (rlock.Group(redis.sentinel.Sentinel([("s1", 1)], ssl=True), 1, "m"), "rediss+sentinel://s1:1/m"),
        (rlock.Group(redis.Redis("primary"), 1), "redis://primary:6379"),
        ("redis://primary?replicas=1", "redis://primary:6379"),
    ],
)
def test_a_ready_client_or_an_address_is_a_group(master: rlock.Group | str, label: str) -> None:
    endpoint = Endpoint(master)
    assert (endpoint.label, endpoint.replicas) == (label, 1)
    endpoint.connection(1.0)


def test_one_string_holds_groups_and_masters() -> None:
    client = rlock.Client(f"redis://a,{URL} redis://b,valkey+sentinel://c:1,d:2/m?replicas=1")
    assert client.masters == [
        "redis://a:6379",
        "redis+sentinel://s1:26379,s2:26380,s3:26379/mymaster",
        "redis://b:6379",
        "redis+sentinel://c:1,d:2/m",
    ]


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("redis+sentinel://s1,s2/mymaster", "add ?replicas=1"),
        ("redis+sentinel://s1,s2/?replicas=1", "write redis+sentinel://"),
        ("redis+sentinel://joe:secret#1@s1/m?replicas=1", "write redis+sentinel://"),
        ("redis+sentinel://s1/m?replicas=one", "the number of replicas"),
        ("redis+sentinel://s1/m?replicas=1&sentinel_tls=maybe", "write redis+sentinel://"),
        (f"{URL},{URL}", "twice"),
    ],
)
def test_a_wrong_url_is_refused_with_what_to_do(url: str, advice: str) -> None:
    with pytest.raises(rlock.OptionsError) as raised:
        rlock.Client(url)
    assert advice in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_sentinel_client_has_to_say_how_many_replicas_there_are() -> None:
    with pytest.raises(rlock.OptionsError, match="replicas=1"):
        rlock.Client(redis.sentinel.Sentinel([("s1", 1)]).master_for("m"))
    with pytest.raises(rlock.OptionsError, match="name"):
        rlock.Client(rlock.Group(redis.sentinel.Sentinel([("s1", 1)]), 1))


def test_a_client_that_does_not_know_the_group_is_refused_and_leaves_its_note(any_server: AnyMaster) -> None:
    away = pytest.raises(rlock.QuorumUnreachableError, match="0 of 1 replicas")
    with rlock.Client(f"{any_server.url}?replicas=1") as group, away:
        group.lock("x").acquire(blocking=False)
    with raw(any_server.url) as server, rlock.Client(any_server.url) as plain:
        note = server.get(NOTE)
        with pytest.raises(rlock.OptionsError, match="replicas="):
            plain.lock("x").acquire(timeout=1)
        assert server.get(NOTE) == note


def test_a_node_of_a_cluster_is_no_master() -> None:
    server = default_server()
    if server is None:
        pytest.skip("there is no server")
    with (
        Master(server, args=("--cluster-enabled", "yes")) as node,
        rlock.Client(node.url) as client,
        pytest.raises(rlock.OptionsError, match="Cluster"),
    ):
        client.lock("x").acquire(timeout=1)
