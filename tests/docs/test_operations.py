"""Pages for operators: the commands of cli and doctor; the settings of operations.md."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import closing
from functools import partial
from itertools import combinations, product
from pathlib import Path

import pytest
import redis

import rlock
from rlock.rules.quorum import quorum
from rlock.testing.local.embedded import Master, ServerBinary, Tls
from rlock.testing.local.spawn import free_port

from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..servers import Fleet, raw
from .pages import DOCS, RLOCK, marked, starter, write_scripts

HERE = "tests/docs/test_operations.py"


def commands(*pages: str) -> list[str]:
    """The commands of the pages, without their comments."""
    blocks = (block for page in pages for block in marked(DOCS / page, HERE))
    lines = (line for block in blocks for line in block.splitlines() if line.startswith("$ "))
    return [line[2:].partition("  #")[0].strip() for line in lines]


@pytest.mark.parametrize("command", commands("cli.md", "doctor.md"))
def test_a_command_of_the_page_does_its_work(command: str, masters3: Fleet, tmp_path: Path) -> None:
    if "| jq" in command and shutil.which("jq") is None:
        command = command.partition(" | jq")[0]  # the half that is ours
    for folder in re.findall(r"~/(\S+)/[\w.]+", command):
        (tmp_path / folder).mkdir(parents=True)
    # The pages assume some programs on a reader's machine.
    tools = {"rlock": RLOCK, "make": "echo made", "dump": "echo dumped", "gzip": "exec cat"}
    write_scripts(tmp_path / "tools", tools)
    write_scripts(tmp_path, {"report.sh": "echo ran", "migrate.sh": "echo ran"})
    path = f"{tmp_path / 'tools'}{os.pathsep}{os.environ['PATH']}"
    with starter(tmp_path, masters3.urls, PATH=path, HOME=str(tmp_path), NO_COLOR="1") as start:
        process = start("bash", "--norc", "-c", command)
        out, _ = process.communicate(timeout=60)
    # Doctor reports that masters of tests keep nothing, and exits with 1.
    allowed = {0, 1} if command.startswith("rlock doctor") else {0}
    assert process.returncode in allowed, out
    assert "Traceback" not in out
    assert "No such" not in out
    written = re.search(r"> ~/(\S+)", command)
    if written:
        assert (tmp_path / written[1]).read_text()
    elif "| jq" not in command:  # that shows errors, and there may be none
        assert out


def test_the_gauges_of_the_page_are_those_of_the_exporter() -> None:
    text = (DOCS / "metrics.md").read_text(encoding="utf-8")
    page = text.partition("\n| gauge | |\n")[2].partition("\n\n")[0]
    code = (DOCS.parent / "rlock" / "cli" / "scan" / "gauges.py").read_text(encoding="utf-8")
    assert {*re.findall(r"redlock_\w+", page)} == {*re.findall(r"\"(redlock_\w+)\"", code)}


SETTINGS, TLS, URL = marked(DOCS / "operations.md", HERE)


def arguments(text: str, **paths: str) -> list[str]:
    """Lines of a configuration file as arguments of the server."""
    made = []
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        made += [f"--{name}", paths.get(name, value.strip('"'))]
    return made


def test_the_settings_make_masters_that_forget_nothing_and_are_not_waited_for(
    fresh_masters: FreshMasters,
) -> None:
    fleet = fresh_masters(3, args=arguments(SETTINGS))
    assert raw(fleet.urls[0]).config_get("appendfsync") == {"appendfsync": "always"}
    assert raw(fleet.urls[0]).config_get("save") == {"save": ""}
    with rlock.Client(fleet.urls) as client:
        client.init()
        with client.lock("x"):
            for master in fleet:
                master.restart(empty=False)
            with rlock.Client(fleet.urls) as other:
                assert other.lock("x").acquire(timeout=0.5) is False
                assert other.lock("y").acquire(timeout=2), "it waits for the restart guard"


def test_the_settings_for_tls_and_the_url_go_together(certificate: Tls, server: ServerBinary) -> None:
    paths = {f"tls-{part}-file": str(getattr(certificate, part)) for part in ("cert", "key")}
    port = free_port()
    settings = arguments(TLS, **paths, **{"tls-ca-cert-file": str(certificate.ca), "tls-port": str(port)})
    url = URL.strip().replace("10.0.0.1:6379", f"127.0.0.1:{port}")
    for name, path in (("ca.crt", "ca"), ("me.crt", "cert"), ("me.key", "key")):
        url = url.replace(f"/etc/rlock/{name}", str(getattr(certificate, path)))
    with closing(Master(server, port=port, tls=certificate, args=settings)) as master:
        master._launch()  # not `start`: the server wants a certificate of whoever asks whether it is up
        if not eventually(partial(answers, url), within=10) and not master.running:
            pytest.skip(f"{server} was built without TLS")
        with rlock.Client([url], restart_guard=0) as client, client.lock("x") as lock:
            assert lock.is_owned()
        bare = url.partition("&")[0]
        with rlock.Client([bare], restart_guard=0) as client, pytest.raises(rlock.QuorumUnreachableError):
            client.lock("x").acquire(timeout=1)  # it has no certificate of its own


def answers(url: str) -> bool:
    try:
        return bool(raw(url).ping())
    except redis.RedisError:
        return False


@pytest.mark.parametrize(
    ("before", "after", "safe"), [("123", "124", False), ("123", "1234", True), ("1234", "124", True)]
)
def test_quorums_of_two_lists_share_a_master_if_one_is_added_or_removed(
    before: str, after: str, safe: bool
) -> None:
    old, new = (combinations(masters, quorum(len(masters))) for masters in (before, after))
    assert all({*one} & {*other} for one, other in product(old, new)) == safe
