"""Compiles the models, runs them with rules switched on and off, and puts a counter-example into words."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

HERE = Path(__file__).parent
#: More than any complete search in test mode takes, by an order of magnitude; and less than the suite's own.
PATIENCE_S = 100.0


def compiler() -> str | None:
    """A C++ compiler, if there is one on the path."""
    return next((found for name in ("c++", "g++", "clang++") if (found := shutil.which(name))), None)


@dataclass(frozen=True)
class Step:
    """One line of a counter-example. ``told``: what the model adds about the state after it."""

    kind: str
    client: int
    master: int
    told: tuple[int, ...]


@dataclass(frozen=True)
class Result:
    """What a search came to."""

    verdict: str  # "never", "reached", "unfinished"
    states: int
    steps: int  # of the shortest way, if reached; else how deep the whole space is
    seconds: float
    trace: tuple[Step, ...]


@dataclass(frozen=True)
class Program:
    """A source file, and what is fixed when it is compiled."""

    source: str
    macros: tuple[str, ...] = ()


LOCK = Program("lock")
LOCK_OF_THREE = Program("lock", ("CLIENTS=3",))
LOCK_ON_FIVE = Program("lock", ("MASTERS=5",))
FENCE = Program("fence")
FENCE_OF_TWO = Program("fence", ("OWNERS=2",))


@cache
def folder() -> Path:
    """For the binaries of this process."""
    return Path(mkdtemp(prefix="rlock-model-"))


def discard() -> None:
    """Remove what was compiled."""
    shutil.rmtree(folder())
    folder.cache_clear()
    compiled.cache_clear()


@cache
def compiled(program: Program) -> Path:
    """The program's binary; compiled once in a process."""
    tool = compiler()
    if tool is None:
        raise FileNotFoundError("no C++ compiler")
    binary = folder() / "-".join((program.source, *program.macros))
    words = [
        tool,
        "-std=c++17",
        "-O3",
        "-Wall",
        "-Wextra",
        "-Werror",
        *(f"-D{macro}" for macro in program.macros),
    ]
    _output([*words, "-o", str(binary), str(HERE / f"{program.source}.cpp")], PATIENCE_S)
    return binary


def check(program: Program, rules: str = "", *, patience_s: float | None = PATIENCE_S) -> Result:
    """Search ``program`` under ``rules``, words of the form name=value; those not named are as designed."""
    head, *lines = _output([str(compiled(program)), *rules.split()], patience_s).splitlines()
    kind, *words = head.split()
    if kind != "result":
        raise ValueError(f"not a result: {head}")
    said = dict(word.split("=") for word in words)
    return Result(
        said["verdict"],
        int(said["states"]),
        int(said["steps"]),
        float(said["seconds"]),
        tuple(_step(line) for line in lines),
    )


def _output(words: list[str], patience_s: float | None) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=patience_s, check=False)
    if done.returncode != 0:
        # CalledProcessError would keep to itself what the compiler said.
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[:2000]}")
    return done.stdout


def _step(line: str) -> Step:
    word, kind, client, master, *told = line.split()
    if word != "step":
        raise ValueError(f"not a step: {line}")
    return Step(kind, int(client), int(master), tuple(map(int, told)))


_LOCK_WORDS = {
    "tick": "a tick passes",
    "restart": "{master} restarts, empty",
    "restart-older": "{master} restarts, with an older memory",
    "restart-whole": "{master} restarts, with all its memory",
    "promoted": "a replica of {master} is promoted, with an older memory",
    "flush": "{master} is flushed",
    "evicted": "{master} loses its note, and nothing else",
    "hello-none": "a hello runs on {master}: it finds no note, and writes one",
    "hello-foreign": "a hello runs on {master}: it finds the note of an earlier life",
    "hello-saw-none": "a hello runs late on {master}: its client saw that no master had a note",
    "reads": "{client} reads the note of {master}",
    "starts": "{client} starts an attempt",
    "granted": "{client}'s acquire runs on {master}: granted",
    "granted-young": "{client}'s acquire runs on {master}: granted, but too young to count",
    "extended": "{client}'s renewal runs on {master}: extended",
    "extended-young": "{client}'s renewal runs on {master}: extended, on a young master",
    "heals": "{client}'s renewal runs on {master}: the key is put back",
    "late": "a command of an earlier round of {client} runs on {master}, and writes its key",
    "reply": "{master}'s reply reaches {client}",
    "handed": "{client}'s release runs on {master}: handed to its successor",
    "handed-young": "{client}'s release runs on {master}: handed to its successor, on a young master",
    "wins": "{client} counts a quorum: IT HOLDS THE LOCK",
    "renewed": "{client} counts a quorum: ITS LEASE IS RENEWED",
    "succeeds": "{client}'s successor counts a quorum: IT HOLDS THE LOCK",
    "gives-up": "{client} gives its attempt up",
    "releases": "{client} releases, or loses",
    "hands-on": "{client} releases to a successor of its own",
    "new-round": "{client} begins a round of renewal",
    "ghost": "a command of an attempt that is over writes its key on {master}",
    "undone": "the release of an attempt that is over runs on {master}",
    "deletes": "the release of {client}'s earlier attempt runs on {master}, and deletes what is there",
}

_FENCE_WORDS = {
    "begins": "{client} begins, and proposes nothing",
    "begins-ahead": "{client} begins, and proposes a value ahead",
    "granted": "{client}'s acquire runs on {master}: {value}",
    "granted-unheard": "{client}'s acquire runs on {master}: {value}; the reply is lost",
    "late-acquire": "{client}'s acquire runs late on {master}: {value}",
    "writes-back": "{client} writes back {own}",
    "stored": "{master} has {own}, and says yes to {client}",
    "refused": "{master} says no to {client}: it has {value}",
    "store-unheard": "{client}'s store runs on {master}; the reply is lost",
    "late-store": "{client}'s store runs late on {master}",
    "token": "{client} takes the token {own}",
    "token-back": "{client} takes the token {own}, which a quorum stored",
    "gives-up": "{client} gives up",
    "too-great": "{client} got beyond the numbers of the model",
}


def in_words(program: Program, trace: tuple[Step, ...]) -> list[str]:
    """The steps as sentences; for the lock with the time, and what is left of each client's validity."""
    lines = []
    now = 0
    for number, step in enumerate(trace, 1):
        now += step.kind == "tick"
        names = {"client": "ABC"[step.client], "master": f"master {step.master + 1}"}
        if program.source == "fence":
            names["value"] = str(step.told[step.master])
            names["own"] = str(step.told[3 + step.client])
            lines.append(f"{number:2}. {_FENCE_WORDS[step.kind].format(**names)}")
            continue
        valid = ", ".join(f"{'ABC'[c]} valid for {left}" for c, left in enumerate(step.told) if left)
        sentence = _LOCK_WORDS[step.kind].format(**names)
        lines.append(f"{number:2}. at {now}: {sentence}{f'  ({valid})' if valid else ''}")
    return lines
