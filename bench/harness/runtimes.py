"""Builds the contestants that are not written in Python: once for each state of their sources.

A built one stands in ``bench/.environments/<language>-<digest>/`` and is used until its sources or its
toolchain change. Each function returns the command to which the name of an adapter is appended:

- `node`: ``redlock5``, ``redlock4``
- `java`: ``rlock``, ``fairlock``, ``redlock``
- `go`: ``redsync``, ``redsync-failfast``
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness.building import Broken, run
from bench.harness.contestant import ROOT, Failed

SOURCES = ROOT / "bench" / "contestants"
FOLDER = ROOT / "bench" / ".environments"
NODE_AT_LEAST = 18
JAVA_AT_LEAST = 17
#: Of a step that may have to fetch packages. Without a network Maven would try for minutes.
FETCHING_S = 240.0
#: Go compiles its own library the first time: half a minute, on two cores that have other work minutes.
COMPILING_S = 600.0
#: Of a step that needs what this machine has already.
LOCAL_S = 120.0
#: For so long a failure is told again instead of tried again: each process of a test run asks.
FAILED_S = 300.0


def node() -> list[str]:
    """The worker of ``contestants/node``, in a folder with its packages."""
    program = _tool("node", "Node.js")
    npm = _tool("npm", "npm")
    _at_least("Node.js", NODE_AT_LEAST, run([program, "--version"], LOCAL_S))

    def build(folder: Path) -> None:
        for path in _files("node"):
            shutil.copy(path, folder)
        # No script of a package runs, and nothing is asked but the packages of package-lock.json.
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--prefer-offline"]
        run([npm, "ci", *quiet, "--fetch-retries=1", "--fetch-timeout=30000"], FETCHING_S, folder)

    return [program, str(_built("node", "", build) / "worker.mjs")]


def java() -> list[str]:
    """The worker of ``contestants/java``, with the jars of its pom.xml; the JVM at its defaults."""
    program = _tool("java", "Java")
    maven = _tool("mvn", "Maven")
    told = run([program, "-version"], LOCAL_S)
    _at_least("Java", JAVA_AT_LEAST, told)

    def build(folder: Path) -> None:
        command = [maven, "-q", "-B", "-ntp", "-f", str(SOURCES / "java" / "pom.xml")]
        command += [f"-Doutput.directory={folder}", f"-DoutputDirectory={folder / 'jars'}"]
        # These two goals and no phase: a phase would fetch plugins for resources, tests and archives, too.
        goals = ["-DincludeScope=runtime", "compiler:compile", "dependency:copy-dependencies"]
        try:
            # What the local repository has needs no registry, and no second for asking it.
            run([*command, "--offline", *goals], LOCAL_S)
        except Broken:
            raise
        except Failed:
            run([*command, *goals], FETCHING_S)

    folder = _built("java", told, build)
    return [program, "-cp", f"{folder / 'classes'}:{folder / 'jars' / '*'}", "contestant.Main"]


def go() -> list[str]:
    """The worker of ``contestants/go``, compiled."""
    program = _tool("go", "Go")
    told = run([program, "version"], LOCAL_S)

    def build(folder: Path) -> None:
        command = [program, "build", "-mod=readonly", "-buildvcs=false"]
        run([*command, "-o", str(folder / "worker"), "."], COMPILING_S, SOURCES / "go")

    return [str(_built("go", told, build) / "worker")]


def _tool(command: str, title: str) -> str:
    path = shutil.which(command)
    if path is None:
        raise Failed(f"{title} is not installed: no {command} on the PATH")
    return path


def _at_least(title: str, least: int, told: str) -> None:
    found = re.search(r"(\d+)\.", told)
    if found is None or int(found[1]) < least:
        first = next(iter(told.strip().splitlines()), "it does not tell its version")
        raise Failed(f"{title} {least} or newer is needed: {first}")


def _files(language: str) -> list[Path]:
    """The sources: what lies there, without what a tool or an editor left."""
    kinds = {".mjs", ".json", ".java", ".xml", ".go", ".mod", ".sum"}
    folder = SOURCES / language
    kept = ("node_modules", "target")
    found = [path for path in folder.rglob("*") if path.suffix in kinds and not set(kept) & set(path.parts)]
    return sorted(found)


def _built(language: str, toolchain: str, build: Callable[[Path], None]) -> Path:
    """The folder that ``build`` filled for this state of the sources. Any number may ask at the same time."""
    state = hashlib.sha256(toolchain.encode())
    for path in _files(language):
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = FOLDER / f"{language}-{state.hexdigest()[:12]}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    stamp, note = folder / ".complete", folder.with_suffix(".failed")
    with folder.with_suffix(".lock").open("a") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if stamp.exists():
            return folder
        if note.exists() and time.time() - note.stat().st_mtime < FAILED_S:
            raise Failed(note.read_text(encoding="utf-8"))
        shutil.rmtree(folder, ignore_errors=True)  # half of one, of a build that was killed
        folder.mkdir()
        try:
            build(folder)
        except Broken:
            raise
        except Failed as why:
            note.write_text(str(why), encoding="utf-8")
            raise
        note.unlink(missing_ok=True)
        stamp.touch()
    return folder
