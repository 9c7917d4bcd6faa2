"""The packages of the peers: pinned, complete, and those of the field."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from bench.harness import environments
from bench.harness.contestant import Failed
from bench.harness.field import ALL

PEERS = sorted({found.environment for found in ALL if found.environment.startswith("python/")})
FILES = {f"python/{path.stem}": path for path in environments.REQUIREMENTS.glob("*.txt")}

LISTING = """
import importlib.metadata, json
print(json.dumps([(found.metadata["Name"], found.version) for found in importlib.metadata.distributions()]))
"""


def pinned(environment: str) -> dict[str, str]:
    """Name and version of each line; a line with a condition counts where that is met."""
    lines = [line for line in FILES[environment].read_text().splitlines() if not line.startswith("#")]
    found = {}
    for line in lines:
        match = re.fullmatch(r"([\w.-]+)==([\w.]+)(; python_\w+ (?:<|>=) \"[\d.]+\")?", line)
        assert match, f"{environment}: not pinned: {line}"
        if not match[3]:
            found[match[1].lower().replace("_", "-")] = match[2]
    return found


def test_each_environment_has_its_list_and_each_list_its_contestant() -> None:
    assert sorted(FILES) == PEERS


@pytest.mark.parametrize("environment", PEERS)
def test_each_package_of_a_peer_is_pinned_and_no_other_is_installed(environment: str) -> None:
    wanted = pinned(environment)
    try:
        (python,) = environments.made(environment)
    except Failed as why:
        pytest.skip(str(why))
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    listed = subprocess.run([python, "-E", "-s", "-c", LISTING], capture_output=True, text=True, check=True)
    installed = {name.lower().replace("_", "-"): version for name, version in json.loads(listed.stdout)}
    assert installed.items() >= wanted.items()
    conditional = {"async-timeout", "setuptools"}
    assert installed.keys() - conditional <= wanted.keys()
    # Nothing that a package says it needs is missing or of a version that it cannot work with.
    checked = subprocess.run([*pip, "check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
