"""`rlock run` beside flock(1): each scenario runs with both programs, and all that can be seen is compared.

A scenario with a row differs as the row of docs/cli.md says; without one, nothing may differ.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ..lock.conftest import eventually
from ..servers import Fleet, state
from .beside import FLOCK, LOCK, QUIET_S, Side, terminal
from .shell import done, environment

pytestmark = [
    pytest.mark.skipif(FLOCK is None, reason="flock(1) is not on this machine"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]
PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def status(*words: str, held: bool = False) -> Callable[[Side], str]:
    def probe(side: Side) -> str:
        with side.held() if held else nullcontext():
            found = side.done(*words)
        if side.ours and found.code == 64:
            assert len(found.err.splitlines()) == 1
        return f"{found.code} {found.out}".strip()

    return probe


def caller(**how: Any) -> None:
    """In the child, before flock or rlock starts."""
    os.umask(0o027)
    os.nice(3)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
    for number in how.get("ignored", ()):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, how.get("blocked", ()))
    for descriptor in how.get("closed", ()):
        os.close(descriptor)


def inherited(program: str, **how: Any) -> Callable[[Side], str]:
    """What a Python program, or a command, says of itself, started by a caller with unusual settings."""

    def probe(side: Side) -> str:
        words = program.split() if program.startswith("/") else [sys.executable, "-c", program]
        reader, writer = os.pipe()
        options = {"pass_fds": [reader, writer], "cwd": side.folder.parent}
        try:
            begun = partial(caller, **how)
            found = side.done("-o", LOCK, *words, str(side.log), preexec_fn=begun, **options)
        finally:
            os.close(reader)
            os.close(writer)
        told = found.out + side.log.read_text()
        return told.replace(f"{reader} ", "r ").replace(f"{writer} ", "w ") + str(found.code)

    return probe


DESCRIPTORS = """import os, sys
fds = [fd for fd in range(40) if os.path.exists(f'/proc/self/fd/{fd}')]
with open(sys.argv[1], "w") as log:
    print(*fds, "", sep=" ", file=log)
"""
LIMITS = """import os, resource
print(os.umask(0), os.nice(0), os.getcwd(), *map(resource.getrlimit, range(16)))
parent = os.getppid()
print(os.getpgrp() == os.getpgid(parent), os.getsid(0) == os.getsid(parent), os.getpgrp() == os.getpid())
"""
SIGNALS = "/bin/grep -hE ^Sig(Blk|Ign|Cgt) /proc/self/status"


def ignores_sigpipe(side: Side) -> str:
    found = inherited(SIGNALS, ignored=[signal.SIGPIPE, signal.SIGXFSZ])(side)
    ignored = int(re.findall("SigIgn:\t(.*)", found)[0], 16)
    return {0: "have their default action", 0x1001000: "stay ignored"}[ignored & 0x1001000]


def variables(side: Side) -> str:
    usual = environment(side.urls)
    given = {key: value for key, value in usual.items() if not key.startswith(("LC_", "LANG"))}
    side.done(LOCK, "cp", "/proc/self/environ", str(side.log), env=given)
    found = side.log.read_text().rstrip("\0").split("\0")
    told = dict(entry.split("=", 1) for entry in found)
    assert all(told[key] == given[key] for key in {*told} & {*given} - {"RLOCK_TTL"})
    more, less = (", ".join(sorted(names)) for names in ({*told} - {*given}, {*given} - {*told}))
    return f"with {more}, without {less}" if more or less else "as it was"


def redirected(to: str, *options: str) -> Callable[[Side], str]:
    def probe(side: Side) -> str:
        command = side.argv(*options, LOCK, "sh", "-c", "exit 3")
        return str(done(["sh", "-c", f'"$@" {to}', "sh", *command], env=environment(side.urls)).code)

    return probe


def out_of_reach(side: Side) -> str:
    side.file = side.folder / "none" / "lock"
    return str(done(side.argv("-n", LOCK, "true"), env=environment(["redis://127.0.0.1:1"])).code)


def verbose(side: Side) -> str:
    found = side.done("--verbose", LOCK, "true")
    assert bool(found.out) != bool(found.err)
    return "on stdout" if found.out else "on stderr"


def background(side: Side) -> str:
    left_running = int(side.done(LOCK, "-c", "sleep 60 >/dev/null 2>&1 & echo $!").out)
    try:
        return "never keeps it" if side.done("-n", LOCK, "true").code == 0 else "keeps the lock"
    finally:
        os.kill(left_running, signal.SIGKILL)


def signalled(name: str) -> Callable[[Side], str]:
    def probe(side: Side) -> str:
        number = getattr(signal, name)
        with side.running(*([name] if name != "SIGKILL" else [])) as process:
            return side.effect(number, process.pid)

    return probe


def group_signalled(side: Side) -> str:
    with side.running("SIGUSR1") as process:
        process.send_signal(signal.SIGSTOP)  # otherwise COMMAND could take two signals for one
        assert eventually(lambda: state(process.pid) == "T")
        os.killpg(process.pid, signal.SIGUSR1)
        assert eventually(lambda: side.lines()[1:] == ["SIGUSR1"])
        process.send_signal(signal.SIGCONT)
        return "twice" if eventually(lambda: side.lines()[2:], QUIET_S) else "once"


def asks_the_terminal(side: Side) -> str:
    command = side.argv(LOCK, "sh", "-c", "echo 'asked;' > /dev/tty")
    with terminal(side, *command, stdin=os.devnull) as (screen, _):
        screen.until("asked;")
        return screen.until(r"status (\d+);")[1]


def typed(key: str, name: str) -> Callable[[Side], str]:
    def probe(side: Side) -> str:
        with terminal(side, *side.traps(name)) as (screen, _):
            side.command()
            screen.type(key)
            assert eventually(lambda: side.lines()[1:])
            time.sleep(QUIET_S)
            assert side.lines()[1:] == [name], "once"
            side.end.touch()
            code = screen.until(r"status (\d+);")[1]
            return "waits for COMMAND" if code == "5" else "ends before COMMAND"

    return probe


def killed_in_the_foreground(name: str) -> Callable[[Side], str]:
    def probe(side: Side) -> str:
        handled = [] if name == "SIGTSTP" else [name]
        with terminal(side, *side.traps(*handled)) as (_, program):
            found = side.effect(getattr(signal, name), program)
            with suppress(ProcessLookupError):
                os.kill(program, signal.SIGCONT)
            assert eventually(lambda: state(side.command()) != "T"), "it goes on with the program"
            return found

    return probe


def suspended(seconds: float, ttl: str) -> Callable[[Side], str]:
    def probe(side: Side) -> str:
        with terminal(side, *side.traps(), stdin=os.devnull, ttl=ttl) as (screen, _):
            command = side.command()
            screen.type("\x1a")
            screen.until("stopped;")
            assert eventually(lambda: state(command) == "T")
            time.sleep(seconds)
            screen.type("\n")
            if seconds < float(ttl):
                side.end.touch()
            elif side.ours:
                screen.until(" was lost")
            else:
                time.sleep(QUIET_S)
                side.end.touch()
            return screen.until(r"status (\d+);")[1]

    return probe


#: Words of both programs, on a lock that is free: the same exit status, the same output of COMMAND.
FREE = r"""
LOCK sh -c 'exit 7'
LOCK sh -c 'kill -9 $$'
LOCK echo -n a 'b c' --help -w
LOCK -c 'echo $((1 + 2)); exit 3'
LOCK
-w .5 LOCK echo x
-E 0 -n LOCK sh -c 'exit 4'
-nE9 LOCK echo x
--bogus LOCK echo x
"""
HELD = """
-n -E 42 LOCK echo ran
--timeout 0.2 -E 1 LOCK -c 'echo ran'
"""
SENT = "SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 to it"
KEYS = "Ctrl-C, Ctrl-\\"
#: Of each scenario: its row on the page; None: nothing differs.
SCENARIOS: dict[str, tuple[str | None, Callable[[Side], str]]] = {
    **{line: (None, status(*shlex.split(line))) for line in FREE.strip().splitlines()},
    **{line: (None, status(*shlex.split(line), held=True)) for line in HELD.strip().splitlines()},
    "-n": ("Conflict with `-n`, without `-E`", status("-n", LOCK, "true", held=True)),
    "-w": ("Conflict with `-w`, without `-E`", status("-w", ".1", LOCK, "true", held=True)),
    "ENOENT": ("COMMAND is not found", status(LOCK, "no-such-command-here")),
    "EACCES": ("COMMAND cannot be executed", status(LOCK, "/etc/passwd")),
    "-n -w": ("`-n` and `-w` together", status("-n", "-w", "1", LOCK, "true")),
    "-w -1": ("A negative `-w`", status("-w", "-1", LOCK, "true")),
    "-w nan": ("`-w nan`, or one of ages", status("-w", "nan", LOCK, "true")),
    "-s": (None, status("-s", LOCK, "true")),
    "-F": ("`-F`, `--no-fork`", status("-F", LOCK, "true")),
    "-u": ("`-u`, `--unlock`", status("-u", LOCK, "true")),
    "LOCK -n": ("Options behind the name", status(LOCK, "-n", "true")),
    "LOCK --": ("`--` before COMMAND", status(LOCK, "--", "true")),
    "-c LOCK": ("`-c` before the name", status("-c", "true", LOCK)),
    "0": ("A file descriptor", status("0")),
    "nowhere": ("Masters or file out of reach", out_of_reach),
    "verbose": ("`--verbose`", verbose),
    "background": ("What COMMAND leaves in the background", background),
    "environment": ("Environment of COMMAND", variables),
    "descriptors": (None, inherited(DESCRIPTORS)),
    "all closed": (None, inherited(DESCRIPTORS, closed=[0, 1, 2])),
    "limits, groups": (None, inherited(LIMITS)),
    "masks": (None, inherited(SIGNALS, ignored=[1, 12, 17, 20], blocked=[10, 28, 15])),
    "SIGPIPE ignored": ("SIGPIPE, SIGXFSZ that the caller ignores", ignores_sigpipe),
    **{to: (None, redirected(to)) for to in (">/dev/full", "2>&-")},
    ">/dev/full --verbose": ("A full stdout with `--verbose`", redirected(">/dev/full", "--verbose")),
    **{name: (SENT, signalled(name)) for name in ("SIGTERM", "SIGHUP", "SIGUSR1")},
    "SIGWINCH": (None, signalled("SIGWINCH")),
    "SIGPIPE": ("SIGPIPE to it", signalled("SIGPIPE")),
    "SIGTSTP": ("SIGTSTP to it", killed_in_the_foreground("SIGTSTP")),
    "SIGKILL": ("`kill -9` of it", signalled("SIGKILL")),
    "group": ("A signal to the process group", group_signalled),
    "/dev/tty": (None, asks_the_terminal),
    "Ctrl-C": (KEYS, typed("\x03", "SIGINT")),
    "Ctrl-\\": (KEYS, typed("\x1c", "SIGQUIT")),
    "Ctrl-Z": (None, suspended(0.3, "10")),
    "long Ctrl-Z": ("Ctrl-Z for longer than the ttl", suspended(3, "1")),
    **{f"{name} on a terminal": (SENT, killed_in_the_foreground(name)) for name in ("SIGINT", "SIGQUIT")},
}


def rows() -> dict[str, tuple[str, str]]:
    """The table of the page: of each first cell the cells of flock and of rlock run."""
    part = PAGE.read_text(encoding="utf-8").partition("### Beside flock(1)")[2].partition("\n## ")[0]
    found = [line.strip("| \n").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return {first: (theirs, ours) for first, theirs, ours in found[1:]}


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_do_the_same_unless_the_page_says_so(name: str, masters3: Fleet, tmp_path: Path) -> None:
    row, probe = SCENARIOS[name]
    found = []
    for ours in (False, True):
        folder = tmp_path / str(ours)
        folder.mkdir()
        found.append(probe(Side(masters3, folder, ours=ours)))
    if row is None:
        assert found[1] == found[0]
        return
    assert found[1] != found[0], f"remove the row {row!r}: they do the same"
    for cell, outcome in zip(rows()[row], found, strict=True):
        told = re.search(rf"(?<!\w){re.escape(outcome)}(?!\w)", cell)
        assert told, f"the page says {cell!r} of {outcome!r}"


def test_each_row_of_the_page_has_a_scenario() -> None:
    assert {*rows()} == {row for row, _ in SCENARIOS.values() if row}
