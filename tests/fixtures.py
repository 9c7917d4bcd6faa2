"""The masters that tests run on. Shared ones are cleaned before each test; who kills, takes fresh ones.

``master``          one clean master                       ``raw(master.url)`` looks into it
``any_server``      one clean master of every flavour found (the test runs once for each)
``masters``         five clean masters: ``masters.urls``, ``masters[0]``; ``masters1``, ``masters3``: so many
``memory_masters``  five masters of `rlock.testing`; ``real_masters`` are never those
``fresh_masters``   ``fresh_masters(3, args=...)``: processes of the test's own, ended with it
``server``          the ServerBinary that the fleets run on
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlock import events
from rlock.testing.local.embedded import Master, Masters, ServerBinary, Tls

from . import memory, quick, seeds, servers
from .scripted import LEASE_MS, LIFE, NOTE, Box
from .servers import PASSWORD, AnyMaster, Fleet, Janitor, default_server, label, servers_found, wanted_server
from .telemetry.happenings import Ledger

FLEET = 5
FLAVOURS = {label(server): server for server in servers_found()}
FreshMasters = Callable[..., Fleet]
# A run that was started in the background inherits these as ignored. Its children would inherit that, and
# each test that interrupts one would fail after its time-out.
with contextlib.suppress(ValueError):  # not the main thread
    for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(_number) is signal.SIG_IGN:
            interrupts = _number == signal.SIGINT
            signal.signal(_number, signal.default_int_handler if interrupts else signal.SIG_DFL)

_LOG = logging.getLogger("rlock")
_AS_IT_WAS = _LOG.level, _LOG.propagate, _LOG.disabled, logging.root.manager.disable


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """A command that ran in this process may have hushed the log, in which later tests look for records."""
    yield
    _LOG.level, _LOG.propagate, _LOG.disabled, logging.root.manager.disable = _AS_IT_WAS
    _LOG.setLevel(_AS_IT_WAS[0])  # and forget what was decided by another level


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    """What blocks signals in this process blocks them in each process that a later test starts."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    yield
    assert signal.pthread_sigmask(signal.SIG_SETMASK, blocked) == blocked, "the test left signals blocked"


def pytest_report_header() -> list[str]:
    lines = [f"masters: fleets on {default_server() or 'none'}"]
    lines += [f"  {name}: {server.version}, {server.path}" for name, server in FLAVOURS.items()]
    return [*lines, seeds.repeat()]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name in servers.missing():
        terminalreporter.line(f"{name}: not found, its tests are left out")
    if terminalreporter.stats.get("failed"):
        terminalreporter.line(seeds.repeat())


def pytest_configure(config: pytest.Config) -> None:
    real = "real_masters: looks into a server, or has another process use it; not for masters in memory"
    config.addinivalue_line("markers", real)
    config.addinivalue_line("markers", "kinds(*names): only for these kinds of client (tests/lock)")
    # The workers inherit it: a run that goes on past midnight keeps the seeds that its header names.
    os.environ[seeds.VARIABLE] = str(seeds.seed_of_the_day())
    if wanted_server() and default_server() is None:
        # A typing error must not turn into a green run on another server.
        raise pytest.UsageError(f"RLOCK_TEST_SERVER={wanted_server()}: found only {', '.join(FLAVOURS)}")


def pytest_xdist_auto_num_workers() -> int:
    """For ``-n auto``: tests wait more than they compute, and three workers keep two cores busy."""
    return len(os.sched_getaffinity(0)) * 3 // 2


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    # Otherwise the quick set would import Django, Celery and Selenium, only to leave their tests out.
    return True if "not slow" in config.option.markexpr and quick.is_slow(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    quick.mark(items)


@pytest.fixture(scope="session")
def server() -> ServerBinary:
    found = default_server()
    if found is None:
        pytest.skip("no Redis or Valkey server on this machine")
    return found


@pytest.fixture(scope="session")
def _janitor() -> Iterator[Janitor]:
    janitor = Janitor()
    yield janitor
    janitor.close()


def _start(count: int, **options: Any) -> list[AnyMaster]:
    binary = options.pop("binary", None) or default_server()
    if binary is None:
        pytest.skip("no Redis or Valkey server on this machine")
    return list(Masters(count, binary, **{"password": PASSWORD, **options}))


@pytest.fixture(scope="session")
def _shared_fleet() -> Iterator[Fleet]:
    fleet = Fleet(_start(FLEET))
    yield fleet
    for master in fleet:
        master.close()


@pytest.fixture(scope="session")
def _shared_flavours() -> Iterator[dict[str, Master]]:
    made: dict[str, Master] = {}
    yield made
    for master in made.values():
        master.close()


@pytest.fixture
def real_masters(_shared_fleet: Fleet, _janitor: Janitor) -> Fleet:
    for master in _shared_fleet:
        _janitor.clean(master)
    return _shared_fleet


@pytest.fixture
def memory_masters() -> Fleet:
    return memory.fleet(FLEET)


@pytest.fixture
def masters(real_masters: Fleet) -> Fleet:
    return real_masters


@pytest.fixture
def masters3(masters: Fleet) -> Fleet:
    return masters(3)


@pytest.fixture
def masters1(_shared_fleet: Fleet, _janitor: Janitor) -> Fleet:
    _janitor.clean(_shared_fleet[0])
    return _shared_fleet(1)


@pytest.fixture
def master(masters1: Fleet) -> AnyMaster:
    return masters1[0]


def _flavours() -> list[Any]:
    """Each flavour; those beside the default one are slow. None found: pytest skips the test and says so."""
    default = default_server()
    usual = label(default) if default else ""
    return [pytest.param(name, marks=() if name == usual else pytest.mark.slow) for name in FLAVOURS]


@pytest.fixture(params=_flavours())
def any_server(
    request: pytest.FixtureRequest, _shared_flavours: dict[str, Master], _janitor: Janitor
) -> AnyMaster:
    name: str = request.param
    if name not in _shared_flavours:
        _shared_flavours[name] = Master(FLAVOURS[name], password=PASSWORD).start()
    _janitor.clean(_shared_flavours[name])
    return _shared_flavours[name]


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """The events that clients tell during the test."""
    seen = Ledger()
    end = events.observe(seen)
    yield seen
    end()


@pytest.fixture
def box(any_server: AnyMaster) -> Iterator[Box]:
    """One master of each flavour, and the scripts as functions on it."""
    with contextlib.closing(Box(any_server.url)) as box:
        # No grant has to raise the longest lease in the note: that would be one more write.
        box.client.set(NOTE, f"{LIFE} 0 {LEASE_MS}")
        box.listen()
        yield box


def _end(master: AnyMaster) -> None:
    if master.running:
        master.kill()  # a server that is asked to end may take seconds for its files
    master.close()


@pytest.fixture
def fresh_real_masters() -> Iterator[FreshMasters]:
    with contextlib.ExitStack() as stack:

        def make(count: int, **options: Any) -> Fleet:
            fleet = Fleet(_start(count, **options))
            for master in fleet:
                stack.callback(_end, master)
            return fleet

        yield make


@pytest.fixture
def fresh_masters(fresh_real_masters: FreshMasters) -> FreshMasters:
    return fresh_real_masters


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    command = [*made.split(), "-subj", "/CN=rlock", "-addext", "subjectAltName=IP:127.0.0.1"]
    try:
        subprocess.run([*command, "-keyout", key, "-out", cert], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"openssl makes no certificate here: {error}")
    return Tls(cert, key, cert)
