"""The environment of a contestant: its own virtualenv, a compiled program, or the project's interpreter.

Each is built once for each state of its sources and its toolchain, in ``bench/.environments/``. A contestant
whose environment cannot be built is left out, and its rows say why:

- ``own``: the interpreter that runs the bench
- ``python/KEY``: a virtualenv with ``contestants/python/requirements/KEY.txt``
- ``node``, ``java``, ``go``: the workers of ``contestants/node``, ``contestants/java``, ``contestants/go``
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from bench.harness.worker import ROOT, Failed

FOLDER = ROOT / "bench" / ".environments"
SOURCES = ROOT / "bench" / "contestants"
NODE_AT_LEAST = 18
JAVA_AT_LEAST = 17
#: A step that may have to fetch packages. Without a network Maven would try for minutes.
FETCHING_S = 300.0
#: Go compiles its own library the first time: half a minute, on two busy cores minutes.
COMPILING_S = 600.0
#: A step that needs nothing from a network.
LOCAL_S = 120.0
#: Messages of javac and go about sources or a go.sum that are wrong.
OURS = re.compile(r"COMPILATION ERROR|^# contestant|go\.sum entry|updates to go\.(mod|sum)", re.M)

_pool = ThreadPoolExecutor(max(2, os.cpu_count() or 1))


class Broken(Failed):
    """Our own sources do not build: nobody may take that for a machine without the toolchain."""


@functools.cache
def _built(environment: str) -> Future[list[str]]:
    return _pool.submit(_build, environment)


def command(environment: str) -> list[str]:
    """The command of the environment's program; built on the first call. Raises `Failed` with the reason."""
    return list(_built(environment).result())


def prepare(environments: Iterable[str]) -> dict[str, str]:
    """Build them side by side. Returns the reasons of those that could not be built."""
    reasons: dict[str, str] = {}
    for environment, built in {each: _built(each) for each in sorted(set(environments))}.items():
        try:
            built.result()
        except (Failed, OSError) as error:
            reasons[environment] = str(error)
    return reasons


def _build(environment: str) -> list[str]:
    if environment == "own":
        return [sys.executable]
    if environment.startswith("python/"):
        return _virtualenv(environment.removeprefix("python/"))
    return {"node": _node, "java": _java, "go": _go}[environment]()


def _virtualenv(key: str) -> list[str]:
    """The interpreter of a virtualenv with exactly the packages of ``requirements/KEY.txt``."""
    requirements = SOURCES / "python" / "requirements" / f"{key}.txt"

    def build(folder: Path) -> None:
        # This interpreter's pip fills it: a pip of its own would take longer to install than the rest.
        run([sys.executable, "-m", "venv", "--without-pip", str(folder)], LOCAL_S)
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
        quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
        # --no-deps: a package that is not in the list would come in whatever version is the newest today.
        run([*pip, "install", *quiet, "--no-deps", "--requirement", str(requirements)])

    state = [requirements.read_bytes(), sys.version.encode(), sys.base_prefix.encode()]
    return [str(cached(f"python-{key}", state, build) / "bin" / "python")]


def _node() -> list[str]:
    program, npm = _tool("node", "Node.js"), _tool("npm", "npm")
    _at_least("Node.js", NODE_AT_LEAST, run([program, "--version"], LOCAL_S))

    def build(folder: Path) -> None:
        for path in _sources("node"):
            shutil.copy(path, folder)
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--no-update-notifier", "--prefer-offline"]
        # No script of a package runs.
        safe = ["--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=30000"]
        run([npm, "install", *quiet, *safe], FETCHING_S, folder)

    return [program, str(cached("node", _state("node", ""), build) / "worker.mjs")]


def _java() -> list[str]:
    program, maven = _tool("java", "Java"), _tool("mvn", "Maven")
    version = run([program, "-version"], LOCAL_S)
    _at_least("Java", JAVA_AT_LEAST, version)

    def build(folder: Path) -> None:
        command = [maven, "-q", "-B", "-ntp", "-f", str(SOURCES / "java" / "pom.xml")]
        command += [f"-Doutput.directory={folder}", f"-DoutputDirectory={folder / 'jars'}"]
        # These two goals and no phase: a phase would fetch plugins for resources, tests and archives, too.
        run([*command, "-DincludeScope=runtime", "compiler:compile", "dependency:copy-dependencies"])

    folder = cached("java", _state("java", version), build)
    return [program, "-cp", f"{folder / 'classes'}:{folder / 'jars' / '*'}", "contestant.Main"]


def _go() -> list[str]:
    program = _tool("go", "Go")

    def build(folder: Path) -> None:
        command = [program, "build", "-mod=readonly", "-buildvcs=false"]
        run([*command, "-o", str(folder / "worker"), "."], COMPILING_S, SOURCES / "go")

    return [str(cached("go", _state("go", run([program, "version"], LOCAL_S)), build) / "worker")]


def _tool(program: str, title: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise Failed(f"{title} is not installed: no {program} on the PATH")
    return path


def _at_least(title: str, least: int, version: str) -> None:
    found = re.search(r"(\d+)\.", version)
    if found is None or int(found[1]) < least:
        first = next(iter(version.strip().splitlines()), "it does not tell its version")
        raise Failed(f"{title} {least} or newer is needed: {first}")


def _sources(language: str) -> list[Path]:
    """The sources of a language, without the files that a tool or an editor left."""
    kinds = {".mjs", ".json", ".java", ".xml", ".go", ".mod", ".sum"}
    left = {"node_modules", "target"}
    found = (SOURCES / language).rglob("*")
    return sorted(path for path in found if path.suffix in kinds and not left & set(path.parts))


def _state(language: str, toolchain: str) -> list[bytes]:
    return [toolchain.encode()] + [path.name.encode() + path.read_bytes() for path in _sources(language)]


def cached(name: str, state: Iterable[bytes], build: Callable[[Path], None]) -> Path:
    """The folder that ``build`` filled for this ``state``, filled now if it was not yet."""
    folder = FOLDER / f"{name}-{hashlib.sha256(b'|'.join(state)).hexdigest()[:12]}"
    stamp = folder / ".complete"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("a") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # two benches that begin together would build into one folder
        if not stamp.exists():
            shutil.rmtree(folder, ignore_errors=True)  # half of one, of a build that was killed
            folder.mkdir()
            build(folder)
            stamp.touch()
    return folder


def run(command: Sequence[str], limit_s: float = FETCHING_S, cwd: Path | None = None) -> str:
    """The output of a step of a build. Raises `Failed`, or `Broken`, with the line that tells why."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{name} was not done after {limit_s:g} s") from None
    except OSError as error:
        raise Failed(f"{name}: {error}") from None
    if done.returncode:
        kind = Broken if OURS.search(done.stdout) else Failed
        raise kind(f"{name} failed: {reason(done.stdout)}"[:300])
    return done.stdout


def reason(output: str) -> str:
    """The line that tells why: the first that names an error, else the last."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[\d;]*m", "", output).splitlines() if line.strip()]
    # npm begins with the code, Maven's compiler with a title: neither tells anything.
    empty = re.compile(r"error (code|errno|syscall) |COMPILATION ERROR", re.IGNORECASE)
    faults = [line for line in lines if re.search(r"\berr(or)?\b", line, re.IGNORECASE)]
    return next(iter([line for line in faults if not empty.search(line)] or lines[-1:]), "it said nothing")
