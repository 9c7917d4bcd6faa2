"""What a contestant runs in: its own virtualenv, a compiled program, or the project's interpreter.

Built where the results cannot touch each other (``bench/.environments/``, one folder for each state of its
sources) and used again while that state is the same. What cannot be built keeps its reason: that is what the
contestant's rows say.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.harness.building import run
from bench.harness.commands import file as file_of_commands
from bench.harness.contestant import ROOT, Failed

FOLDER = ROOT / "bench" / ".environments"
SOURCES = ROOT / "bench" / "contestants"
REQUIREMENTS = SOURCES / "python" / "requirements"

_locks: dict[str, threading.Lock] = {}
_made: dict[str, list[str] | Failed] = {}


def made(environment: str) -> list[str]:
    """How to start a program in it; built on the first call. Raises `Failed`, again with the same reason.

    ``own``: the interpreter that runs the bench; ``python/KEY``: a virtualenv with ``requirements/KEY.txt``;
    ``c``: the floor in C, and what it is to send; ``node``, ``java``, ``go``: what the functions of these
    names in ``runtimes.py`` built.
    """
    with _locks.setdefault(environment, threading.Lock()):
        if environment not in _made:
            try:
                _made[environment] = _make(environment)
            except Failed as why:
                _made[environment] = why
            except Exception as error:
                _made[environment] = Failed(f"{type(error).__name__}: {error}")
    result = _made[environment]
    if isinstance(result, Failed):
        raise Failed(str(result))
    return list(result)


def prepare(environments: Iterable[str]) -> dict[str, str]:
    """Build them side by side. Returns the reasons of those that could not be built."""
    wanted = sorted(set(environments))
    reasons: dict[str, str] = {}

    def one(environment: str) -> None:
        try:
            made(environment)
        except Failed as why:
            reasons[environment] = str(why)

    with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
        list(pool.map(one, wanted))
    return reasons


def _make(environment: str) -> list[str]:
    if environment == "own":
        return [sys.executable]
    if environment.startswith("python/"):
        return [str(_virtualenv(environment.removeprefix("python/")))]
    if environment == "c":
        folder = _compiled()
        return [str(folder / "floor"), str(folder / "commands")]
    try:
        runtimes = importlib.import_module("bench.harness.runtimes")
    except ModuleNotFoundError:
        raise Failed(f"there is no builder for {environment}") from None
    command: list[str] = [str(part) for part in getattr(runtimes, environment)()]
    return command


def _virtualenv(key: str) -> Path:
    """The interpreter of a virtualenv with exactly the packages of ``requirements/KEY.txt``."""
    requirements = REQUIREMENTS / f"{key}.txt"

    def build(folder: Path) -> None:
        # This interpreter's pip fills it: a pip of its own would take longer to install than the rest.
        run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
        quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
        # --no-deps: a package that is not in the list would come in whatever version is the newest today.
        run([*pip, "install", *quiet, "--no-deps", "--requirement", str(requirements)])

    state = [requirements.read_bytes(), sys.version.encode(), sys.base_prefix.encode()]
    return cached(f"python-{key}", state, build) / "bin" / "python"


def _compiled() -> Path:
    """The floor in C, and beside it the file with what the lock sends."""
    source = SOURCES / "floors" / "floor.c"
    commands = file_of_commands()
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise Failed("there is no C compiler")

    def build(folder: Path) -> None:
        libraries = ["-lhiredis", "-pthread"]
        compile_it = [compiler, "-O2", "-Wall", "-o", str(folder / "floor"), str(source), *libraries]
        try:
            run(compile_it)
        except Failed:
            _install_hiredis()
            run(compile_it)
        (folder / "commands").write_bytes(commands)

    return cached("c-floor", [source.read_bytes(), commands, compiler.encode()], build)


def _install_hiredis() -> None:
    """Debian's package, where that is possible; hiredis in the virtualenv has no headers."""
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder, "probe.c")
        probe.write_text("#include <hiredis/hiredis.h>\nint main(void) { return 0; }\n")
        try:
            run(["cc", "-fsyntax-only", str(probe)])
            return
        except Failed:
            pass
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        raise Failed("hiredis for C is missing (Debian: libhiredis-dev)")
    quiet = ["-y", "-qq", "--no-install-recommends"]
    run(["apt-get", "update", "-qq"])
    run(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", *quiet, "libhiredis-dev"])


def cached(name: str, state: Iterable[bytes], build: Callable[[Path], None]) -> Path:
    """The folder that ``build`` filled for this ``state``, filled now if it was not yet."""
    folder = FOLDER / f"{name}-{hashlib.sha256(b'|'.join(state)).hexdigest()[:12]}"
    stamp = folder / ".complete"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{folder.name}.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # two benches that begin together would build into one folder
        if not stamp.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            build(folder)
            stamp.touch()
    return folder
