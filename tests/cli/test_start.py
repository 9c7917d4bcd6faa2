"""The first moments of the command line: what it imports, and Ctrl-C while it does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .shell import done, environment, inside

#: Sends Ctrl-C to the process itself as soon as it imports a module.
INTERRUPTED = """
import os, runpy, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["rlock", *{words!r}]
runpy.run_module("rlock", run_name="__main__", alter_sys=True)
"""
HEAVY = ("redis", "valkey", "asyncio", "ssl")


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("rlock.cli.main", ["--version"]),
        ("click", ["--version"]),
        ("rlock.cli.settings", ["run", "job", "true"]),
        ("rlock.cli.commands.run", ["run", "job", "true"]),
        ("rlock.client", ["run", "job", "true"]),
        ("redis", ["status", "job"]),
    ],
    ids=str,
)
def test_ctrl_c_during_the_imports_is_no_traceback(module: str, words: list[str]) -> None:
    program = INTERRUPTED.format(module=module, words=words)
    found = done([sys.executable, "-c", program], env=environment(["redis://127.0.0.1:1"]))
    assert (found.code, found.out, found.err) == (130, "", "")


@pytest.mark.parametrize("statement", ["import rlock", "import rlock; rlock.RLock", "import rlock.cli.main"])
def test_an_import_loads_no_library_of_redis_and_no_asyncio(statement: str) -> None:
    program = f"import sys; {statement}; print([name for name in {HEAVY} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_the_public_names_are_there_without_a_use() -> None:
    program = "import rlock; print(set(rlock.__all__) <= set(dir(rlock)), hasattr(rlock, 'Lokc'))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "True False\n"


@pytest.mark.parametrize("module", ["errors", "events", "model", "client"])
def test_a_public_module_needs_no_import_of_its_own(module: str) -> None:
    program = f"import rlock; print(rlock.{module}.__name__)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == f"rlock.{module}\n"


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_has_a_short_option(option: str) -> None:
    assert inside(option).out.startswith("rlock, version ")
