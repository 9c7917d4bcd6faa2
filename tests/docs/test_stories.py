"""Every page that shows a terminal: its commands do what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlock.program.local.embedded import ServerBinary

from .pages import DOCS, TOP
from .stories import has_story, parsed, pattern, plain, story

PAGES = [page for page in [TOP / "README.md", *sorted(DOCS.rglob("*.md"))] if has_story(page)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_the_terminals_of_a_page_show_what_happens(page: Path, tmp_path: Path, server: ServerBinary) -> None:
    with story(page, tmp_path) as told:
        told.tell()


# -- the machine itself: it must notice what is wrong --------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "$ echo one\ntwo\n",
        "$ echo one\n",
        "$ echo one; echo two\none\n",
        "$ true\none\n",
        "$ echo code=3\ncode=4\n",
        "$ no-such-command\n",
    ],
)
def test_what_a_page_shows_wrongly_is_noticed(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"<!-- terminal: 1 -->\n```console\n{text}```\n")
    with story(page, tmp_path) as told, pytest.raises(AssertionError, match="and says"):
        told.tell()


def test_ports_that_were_shown_once_are_replaced_in_the_commands_after_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    shown = "$ echo 127.0.0.1:$((7000 + 42))\n127.0.0.1:7001\n$ echo port 7001\nport 7042\n"
    page.write_text(f"<!-- terminal: 1 -->\n```console\n{shown}```\n")
    with story(page, tmp_path) as told:
        told.tell()
        assert told.ports == {"7001": "7042"}


def test_a_command_that_goes_on_is_interrupted_by_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- terminal: 1; goes on -->\n```console\n$ echo on; sleep 60; echo off\non\n```\n"
        "<!-- terminal: 2 -->\n```console\n$ echo meanwhile\nmeanwhile\n```\n"
        "<!-- terminal: 1 -->\n```console\n^C\n...\n$ echo next\nnext\n```\n"
    )
    with story(page, tmp_path) as told:
        told.tell()


def test_a_block_is_taken_apart_into_commands_and_what_they_show() -> None:
    before, commands = parsed("late\n$ one\na\nb\n$ two \\\n>   more\n$ three\n")
    assert before == ["late"]
    assert commands == [("one", ["a", "b"]), ("two \\\n  more", []), ("three", [])]


def test_what_varies_may_vary_and_nothing_else() -> None:
    line = "job: held by box/12/MainThread:0a1b, since 2026-01-02 03:04:05 (0.4 s), on 127.0.0.1:7001"
    other = (
        line.replace("/12/", "/13/")
        .replace("7001", "40123")
        .replace("0.4", "1.9")
        .replace("0a1b", "ffff" * 8)
    )
    assert plain(line) == plain(other)
    assert plain(line) != plain(line.replace("held", "free"))
    assert pattern(["a", "...", "b"]).fullmatch("a\nx\ny\nb\n")
    assert not pattern(["a", "b"]).fullmatch("a\nx\nb\n")
