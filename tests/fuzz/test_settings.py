"""Settings files, the environment and URLs are text of anybody: a client is made, or `OptionsError` raised.

A client that is made from such a URL can be used: what is wrong with its options is told when it connects.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rlock
import rlock.asyncio
from rlock.cli.settings import KEYS, Settings
from rlock.rules.options import ClientOptions, LockOptions
from rlock.rules.timing import lease_ms

from .conftest import fuzz, within

HIDDEN = re.compile("hunter2|swordfish|47114711|81581581")  # passwords: no message may show any part of them
SIGNS = "/?#@,:;&=%[]\\ \t\n'\"<>|\x00\u2100\udcff"
MARKS = ("", "&", "&", *SIGNS, "://", "[x]", "]x[", "@x/", "@/", "/0?a=", "?a=4,")
PARTS = st.sampled_from(("hunter2", "47114711", "swordfish", "81581581"))
SECRETS = st.tuples(PARTS, st.sampled_from(MARKS), PARTS).map("".join)
TEXT = st.text(max_size=20) | st.text("/?#@,:;&=%[]\\ \n\x00\udcff\u2100", max_size=8)
NUMBER = st.sampled_from(
    ("nan", "-inf", "1e999", "0", "-1", "1.5", "0x1F", "1_0", "9" * 400, "9" * 5000, "\u0663", "5e-324", "")
) | st.integers(-(2**70), 2**70).map(str)
HOST = st.sampled_from(("127.0.0.1:1", "localhost:1", "[::1]:1", "[::1", "a..b", "x" * 300, "h:99999")) | TEXT
OPTION_NAMES = (
    "db", "socket_timeout", "socket_connect_timeout", "socket_keepalive", "retry_on_timeout", "protocol",
    "health_check_interval", "client_name", "username", "decode_responses", "encoding", "ssl_ca_certs",
    "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_min_version", "ssl_ciphers", "ssl_ca_data",
    "replicas", "max_connections", "timeout", "path", "host", "port", "connection_class", "retry",
    "credential_provider", "socket_type", "socket_read_size", "sentinel_password", "sentinel_tls",
    "encoding_errors", "redis_connect_func", "cache",
)  # fmt: skip
OPTION = st.sampled_from(OPTION_NAMES) | TEXT
OPTIONS = st.lists(st.tuples(OPTION, NUMBER | TEXT | st.sampled_from(("yes", "no", "None"))), max_size=3)
PATHS = ("/0", "/", "/0", "/mymaster", "/run/x.sock", "/99999999999", "//")
SCHEME = st.sampled_from(
    ("redis", "redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "valkey", "http")
)


@st.composite
def urls(draw: Any) -> str:
    """A URL of any kind, with a password or without, that is right in most of its parts."""
    secret = draw(SECRETS)
    before, behind = draw(st.sampled_from((":", "user:", ""))), draw(st.sampled_from(("@", "@", "", "@/")))
    login = draw(st.sampled_from(("", *3 * (before + secret + behind,))))
    host = draw(st.just("127.0.0.1:1") | HOST)
    path = draw(st.just("") | st.sampled_from(PATHS) | TEXT)
    options = "&".join(f"{key}={value}" for key, value in draw(OPTIONS))
    passwords = [f"&{a}password={secret}{b}" for a in ("", "sentinel_") for b in ("", "=1")]
    options += draw(st.sampled_from(["", *passwords]))
    return f"{draw(SCHEME)}{draw(st.sampled_from(('://', '://', ':/')))}{login}{host}{path}?{options}"


URL = urls() | urls() | TEXT


@pytest.fixture(scope="module", autouse=True)
def _nothing_leaves_this_machine() -> Iterator[None]:
    """Numbers and localhost are looked up, and ports that nobody listens on are asked."""
    look_up = socket.getaddrinfo

    def local(host: Any, *args: Any, **how: Any) -> Any:
        if host in ("127.0.0.1", "localhost", "::1"):
            return look_up(host, *args, **how)
        if isinstance(host, str):
            host.encode("idna")
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", local)
        yield


def told(found: Any) -> None:
    """An error of ours has one line that a terminal shows, and no part of a password."""
    is_client = isinstance(found, rlock.Client | rlock.asyncio.Client)
    text = f"{found!r} {found.masters}" if is_client else str(found)
    assert not HIDDEN.search(text)
    assert text.isprintable(), text
    assert is_client or isinstance(found, rlock.OptionsError), repr(found)


@pytest.mark.parametrize("kind", [rlock.Client, rlock.asyncio.Client])
@fuzz(300)
@given(masters=URL.map(lambda url: [url]) | URL | st.lists(URL, min_size=2, max_size=3))
@example(masters="redis://h?password=hunter2&swordfish=1")
@example(masters="redis://\x1b")
@example(masters="redis://%1b:6379")
@example(masters=["unix:///%1b"])
def test_any_url_makes_a_client_or_an_error_without_a_password(kind: Any, masters: Any) -> None:
    told(within(2.0, kind, masters))


@fuzz(60)
@given(url=urls())
def test_a_client_of_any_url_can_be_used(url: str) -> None:
    client = within(2.0, rlock.Client, [url], request_timeout=0.1)
    if isinstance(client, rlock.Client):
        found = within(3.0, client.lock("x").acquire, timeout=0.05)
        assert not HIDDEN.search(str(found))
        assert str(found).isprintable()
        within(3.0, client.close)


@fuzz(200)
@given(
    masters=URL | st.just("redis://127.0.0.1:1"),
    environ=st.dictionaries(
        st.sampled_from([f"RLOCK_{key.upper()}" for key in KEYS]), NUMBER | TEXT, max_size=5
    ),
)
def test_any_environment_makes_a_client_or_an_error(masters: str, environ: dict[str, str]) -> None:
    environ["RLOCK_MASTERS"] = masters
    told(within(2.0, rlock.Client.from_env, environ))


TOML = st.recursive(
    NUMBER
    | st.sampled_from(("true", "1979-05-27", "07:32:00", "''", '"\\u0000\\n\\u001b"', "'x'"))
    | URL.map(lambda url: f"'{url}'"),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]")
        | inner.map(lambda each: f"{{a = {each}}}")
    ),
    max_leaves=5,
)
LINE = st.tuples(st.sampled_from([*KEYS, "tll", "[ttl]", "a.b", '"\\u001b"']) | TEXT, TOML).map(" = ".join)
FILE = (
    st.lists(LINE | TEXT, max_size=4).map("\n".join).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.binary(max_size=50)
    | st.sampled_from(
        (b"ttl = " + b"[" * 5000, b"a." * 9_000, b"\xef\xbb\xbfttl = 3", b"# \xe9\n", b"ttl = \n")
    )
)


@fuzz(300)
@given(content=FILE)
@example(content=b"ttl = 'redis://h?&password=hunter2'")
@example(content=b"interop = 'redis://h?&password=hunter2'")
@example(content=b"a." * 200_000)  # minutes in tomllib
def test_any_settings_file_makes_a_client_or_an_error(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.toml"
    path.write_bytes(content)
    path.chmod(0o600)
    settings = Settings(None, path)
    told(within(2.0, settings.client))
    found = within(2.0, lambda: list(settings.in_force()))
    assert not HIDDEN.search(str(found))


@fuzz(300)
@given(ttl=st.floats(0.1, 86_400.0))
@example(ttl=1128 * 0.001)
def test_times_become_floats_and_a_ttl_a_lease_of_whole_milliseconds(ttl: float) -> None:
    lease = ClientOptions(ttl, 86_400.0).lease(None)
    assert lease.ttl == lease_ms(lease.ttl) / 1000, "or no note would be as long"
    assert -1e-8 < lease.ttl - ttl < 0.001 + 1e-8
    assert type(LockOptions("x", lease, max_hold=Fraction(1, 2)).max_hold) is float  # type: ignore[arg-type]
