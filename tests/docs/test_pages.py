"""The pages: what they show is run or compared; the site is complete; no code is shown that nothing runs.

The commands of cli.md and doctor.md, the settings of operations.md. A row of the table of faults has a test.
docs/messages.md has each text that rlock logs, or raises while it runs; and no other. The pages stay short,
and none says what another one says. The line before each block says what runs it:

``<!-- recipe: NAME -->``           a test that names the page runs it
``<!-- terminal: NAME -->``         it is part of the page's story: test_stories.py
``<!-- tested: tests/FILE.py -->``  that file runs it, and names the page
``<!-- not run: REASON -->``        nothing runs it, for one of the REASONS
``<!-- on the site: IMAGE -->``     mermaid, of which the site shows a drawing: tests/repository/test_house.py
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from html import unescape
from itertools import combinations, product
from pathlib import Path

import pytest

import rlock
from rlock._client.endpoints import _URLS, ONE_SERVER
from rlock._client.sentinel import FORM
from rlock.rules.quorum import quorum
from rlock.testing.local.embedded import Master, ServerBinary, Tls
from rlock.testing.local.spawn import free_port

from ..cli.shell import done
from ..fixtures import FreshMasters
from ..lock.conftest import eventually
from ..repository.test_house import MODULES, ROOT
from ..servers import Fleet, answers, raw
from .pages import DOCS, PAGES, PYTHON, RLOCK, TOP, marked, page_blocks, starter, write_scripts


def test_every_row_of_the_table_of_faults_names_a_test() -> None:
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    table = text.partition("\n## What each fault does\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    rows = [row for row in rows if row not in ("| fault | effect | test |", "|---|---|---|")]
    assert len(rows) > 40
    assert [row for row in rows if "[test_" not in row.split(" | ")[-1]] == []


REASONS = {
    "installs": "it installs something, or needs something that the tests do not install",
    "long": "it takes minutes, and runs tests itself",
    "drawing": "it is no code",
    "theirs": "it is for a server or an operating system that the tests must not touch",
}
TESTS = {
    path.relative_to(TOP).as_posix(): path.read_text(encoding="utf-8")
    for folder in ("tests", "evidence")
    for path in (TOP / folder).rglob("*.py")
}


def fault(page: Path, kind: str, value: str) -> str:
    """The reason to doubt that a test runs a block; empty: a test runs it."""
    if kind == "recipe":
        told = "<!-- terminal:" in page.read_text(encoding="utf-8")
        runs = told or any(page.name in text for text in TESTS.values())
        return "" if runs else f"no test names {page.name}"
    if kind == "tested":
        ours = page.name in TESTS.get(value, "") and marked(page, value)
        return "" if ours else f"{value} does not take its blocks by pages.marked()"
    if kind == "not run":
        return "" if value in REASONS else f"{value!r} is none of {', '.join(REASONS)}"
    return "" if kind else "the line before it has no mark (tests/docs/test_pages.py)"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_a_test_runs_each_block_of_a_page(page: Path) -> None:
    found = [(block.line, fault(page, block.kind, block.value)) for block in page_blocks(page)]
    assert [f"line {line}: {why}" for line, why in found if why] == []


NO_SITE = importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source)[^>]* src=\"?([^\" >]+)|<link(?! rel=\"canonical)[^>]* href=\"?([^\" >]+)"
)


@pytest.mark.skipif(NO_SITE, reason="mkdocs-material is in the group docs")
@pytest.mark.timeout(300)
def test_the_site_is_complete(tmp_path: Path) -> None:
    """Built without a warning, which a broken link would be; it fetches nothing from the network."""
    site, env = tmp_path / "site", {**os.environ, "PYTHONPATH": str(TOP), "NO_MKDOCS_2_WARNING": "true"}
    command = [PYTHON, "-m", "mkdocs", "build", "--strict", "-f", str(TOP / "mkdocs.yml"), "-d", str(site)]
    built = done(command, cwd=TOP, env=env, timeout=240)
    assert built.code == 0, built.out + built.err
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    fetched = [target for text in texts.values() for found in _FETCHED.findall(text) for target in found]
    assert [target for target in fetched if "//" in target] == []
    stars = re.compile(r'<a[^>]* data-md-component="source"')
    assert not [path for path, text in texts.items() if stars.search(text)], "it asks for stars"
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path.name
    scripts = unescape(re.sub(r"<[^>]+>", "", texts[site / "scripts.html"]))
    for path in (TOP / "lua").glob("*.lua"):
        assert path.read_text(encoding="utf-8").strip() in scripts, path.name
    for name in rlock.__all__:
        assert re.search(rf'id="?rlock(\.\w+)?\.{name}"?[ >]', texts[site / "api.html"]), name


#: Calls with a text for people.
SAY = {"Fault", "broken", "RLockError", "warning", "error", "info", "exception"}
#: Within other messages, or for nobody.
INNER = {"not needed any more", "… …", "…: …", "fixed lease", ONE_SERVER, _URLS.replace(FORM, "…")}
HOLE = "…"


def text(node: ast.expr | None) -> str:
    """A text in the source, with a hole for what is filled in; empty: it is none."""
    if isinstance(node, ast.Constant):
        return re.sub(r"%[-.\d]*[a-z]|\{[^}]*\}", HOLE, node.value) if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(text(part) or HOLE for part in node.values)
    if isinstance(node, ast.BinOp):
        return (text(node.left) or HOLE) + (text(node.right) or HOLE)
    return ""


def said(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = getattr(called, "id", None) or getattr(called, "attr", "")
            on_log = isinstance(called, ast.Attribute) and getattr(called.value, "id", "") == "log"
            if name in SAY and (on_log or isinstance(called, ast.Name)):
                yield from map(text, node.args)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("_text", "text"):
            yield text(node.value)
        elif node in tree.body and isinstance(node, ast.Assign):
            yield text(node.value)  # of a constant


def texts() -> set[str]:
    places = {path: path.relative_to(ROOT).parts for path in MODULES}
    core = [path for path, parts in places.items() if parts[0] not in ("cli", "testing", "telemetry")]
    found = {each for path in core for each in said(ast.parse(MODULES[path]))}
    return {each for each in found if " " in each.replace(HOLE, "").strip()} - INNER


def test_the_page_has_each_message_and_no_other() -> None:
    page = (DOCS / "messages.md").read_text(encoding="utf-8").partition("## Asked often")[0]
    rows = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    shown = {message for row in rows for message in re.findall(r"`([^`]*)`", row)}
    known = texts()
    patterns = {message: re.escape(message).replace(HOLE, ".*") for message in shown}
    assert not [each for each in known if not any(re.fullmatch(p, each) for p in patterns.values())]
    assert not [told for told, p in patterns.items() if not any(re.fullmatch(p, each) for each in known)]


MOST_WORDS = 38_400  # of all pages in docs/; change it only downwards

WRITTEN = [TOP / "README.md", TOP / "CONTRIBUTING.md", TOP / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
LONGEST_RUN = 25  # more words in a row in two places are a sentence that was copied
#: Programs, and tables that the code computes, may repeat each other.
_NO_SENTENCES = re.compile(r"(?ms)^```.*?^```|<!-- computed table.*?<!-- end of the table -->")


def test_no_page_says_a_thing_twice() -> None:
    seen: dict[str, str] = {}
    twice: list[str] = []
    for page in WRITTEN:
        text = re.sub(r"\]\([^)]*\)", "]", page.read_text(encoding="utf-8"))  # the targets of links
        for part in _NO_SENTENCES.sub("|", text).split("|"):
            words = re.findall(r"[\w']+", part.lower())
            for i in range(len(words) - LONGEST_RUN):
                run = " ".join(words[i : i + LONGEST_RUN + 1])
                if run in seen:
                    twice.append(f"{page.name}, {seen[run]}: {run}")
                seen[run] = page.name
    assert twice == []


def test_the_pages_do_not_grow() -> None:
    # As `cat docs/*.md docs/*/*.md | wc -w` counts.
    pages: list[Path] = [*DOCS.glob("*.md"), *DOCS.glob("*/*.md")]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= MOST_WORDS


HERE = "tests/docs/test_pages.py"


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
    path = write_scripts(tmp_path / "tools", tools)
    write_scripts(tmp_path, {"report.sh": "echo ran", "migrate.sh": "echo ran"})
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


@pytest.mark.parametrize(
    ("before", "after", "safe"), [("123", "124", False), ("123", "1234", True), ("1234", "124", True)]
)
def test_quorums_of_two_lists_share_a_master_if_one_is_added_or_removed(
    before: str, after: str, safe: bool
) -> None:
    old, new = (combinations(masters, quorum(len(masters))) for masters in (before, after))
    assert all({*one} & {*other} for one, other in product(old, new)) == safe
