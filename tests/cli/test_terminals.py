"""`rlock watch` and `rlock evict` on a terminal: what comes, what keys and signals do, what is put back."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

import rlock
from rlock.procedures.port import new_owner

from ..lock.conftest import eventually
from ..servers import Fleet, raw
from .shell import RLOCK, ask, environment

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


class Screen:
    """A terminal with `rlock ...` in it."""

    def __init__(self, urls: list[str], *words: str) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = self.mode()
        self.text = ""
        self._seen = 0
        self.process = subprocess.Popen(
            [*RLOCK, *words],
            env=environment(urls, TERM="xterm-256color", PYTHONIOENCODING="utf-8"),
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            # A session of its own, whose terminal this is: signals come as in a shell's window.
            preexec_fn=_take_terminal,
        )

    def mode(self) -> list[Any]:
        return termios.tcgetattr(self._theirs)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def read(self, timeout: float) -> str:
        """What comes within this time; all of it is kept in ``text``."""
        new = ""
        if select.select([self._ours], [], [], timeout)[0]:
            new = os.read(self._ours, 65536).decode("utf-8", "replace")
        self.text += new
        return new

    def shows(self, what: str, within: float = 15.0) -> bool:
        """Whether this comes, in the order in which it is asked for."""
        until = time.monotonic() + within
        while time.monotonic() < until:
            self.read(0.2)
            at = plain(self.text).find(what, self._seen)
            if at >= 0:
                self._seen = at
                return True
        return False

    def ends(self) -> int:
        until = time.monotonic() + 15
        while self.process.poll() is None and time.monotonic() < until:
            self.read(0.1)
        while self.read(0.2):
            pass
        return self.process.wait(timeout=1)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


def _take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.parametrize("end", ["q", signal.SIGINT])
def test_it_shows_locks_as_they_come_and_go_and_its_end_puts_the_terminal_back(
    end: str | signal.Signals, masters3: Fleet
) -> None:
    with closing(Screen(masters3.urls, "watch", "-i", "0.2")) as screen:
        assert screen.shows("3/3 masters answer")
        assert screen.shows("no lock is held")
        assert screen.mode() != screen.before
        with rlock.Client(masters3.urls) as client:
            with client.lock("nightly"):
                assert screen.shows("nightly")
                assert screen.shows("MainThread")
            assert screen.shows("no lock is held")
        if isinstance(end, str):
            screen.type(end)
            assert screen.ends() == 0
        else:
            screen.process.send_signal(end)
            assert screen.ends() == 128 + end
        # Its mode, its screen, its cursor.
        tail = screen.text[screen.text.rindex(ENTER) :]
        assert (screen.mode() == screen.before, LEAVE in tail, "\x1b[?25h" in tail) == (True, True, True)
        assert "Traceback" not in screen.text


def test_once_is_one_picture_for_paper(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client, client.lock("x"):
        code, out, err = ask(masters3.urls, "watch", "--once")
        assert (code, err) == (0, "")
        assert "\x1b" not in out
        words = [line.split()[0] for line in out.splitlines() if line]
        assert words == ["MASTER", *masters3.labels, "NAME", "x"]
    code, out, _ = ask(["redis://127.0.0.1:1"], "watch", "--once", "--json")
    assert code == 69
    assert json.loads(out)["masters"][0]["fault"] is not None


def answer(urls: list[str], keys: str, between: Callable[[], object] = lambda: None) -> tuple[int, str]:
    """Run it on a terminal, and type when it asks; exit status and what stood there."""
    with closing(Screen(urls, "evict", "job")) as screen:
        assert screen.shows("[y/N]")
        between()
        screen.type(keys)
        return screen.ends(), screen.text


def test_on_a_terminal_it_asks_and_no_is_the_answer_that_is_taken_for_granted(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client, client.lock("job"):
        code, shown = answer(masters3.urls, "\n")
        assert code == 1
        assert f"/{os.getpid()}/MainThread" in shown
        assert "since 2" in shown
        assert "nobody was evicted" in shown
        assert client.status("job").locked
        code, shown = answer(masters3.urls, "y\n")
        assert code == 0
        assert "evicted" in shown
        assert not client.status("job").locked
        with pytest.raises(rlock.LeaseLostError):
            client.lock("job").release()
        assert client.lock("job").acquire(timeout=5)


def test_one_who_came_while_it_asked_is_not_evicted(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client, rlock.Client(masters3.urls) as other:
        first, second = client.lock("job"), other.lock("job")
        first.acquire()

        def change() -> None:
            first.release()
            second.acquire()

        code, shown = answer(masters3.urls, "y\n", change)
        assert code == 1
        assert "released in the meantime: nobody was evicted" in shown
        assert second.is_owned()
        second.release()


def test_with_an_owner_nobody_else_is_evicted(masters3: Fleet) -> None:
    with rlock.Client(masters3.urls) as client:
        lock = client.lock("job")
        lock.acquire()
        stranger = new_owner("web/1/main")
        code, _, err = ask(masters3.urls, "evict", "job", "-y", "--owner", stranger)
        assert code == 1
        assert f"not by {stranger}" in err
        assert client.status("job").locked
        holder = client.status("job").holder
        assert holder is not None
        code, out, _ = ask(masters3.urls, "evict", "job", "-y", "--owner", holder, "--json")
        assert code == 0
        assert json.loads(out)["evicted"] == [holder]
        assert eventually(lambda: not client.status("job").locked)


def test_what_is_left_on_a_minority_is_called_what_it_is(masters3: Fleet) -> None:
    raw(masters3.urls[0]).hset("job", mapping={new_owner("web/1/main"): 1})
    code, out, _ = ask(masters3.urls, "evict", "job", "-y")
    assert code == 0
    assert "is no holder, and stands on 1 of 3 masters" in out
    assert not raw(masters3.urls[0]).exists("job")
