"""compose.yaml: five durable masters on one machine, for one machine only."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

FILE = Path(__file__).parents[2] / "compose.yaml"
PLAIN = re.sub(r"^\s*#.*\n", "", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
PORTS = re.findall(r'ports: \["(.*?)"\]', PLAIN)


def test_compose_publishes_five_masters_on_the_loopback_address_only() -> None:
    assert len(PORTS) == 5
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:6379", port) for port in PORTS)
    assert PLAIN.count("ports:") == 5, "a port in another notation would escape the check above"


def test_compose_masters_are_durable_so_that_a_restart_forgets_no_vote() -> None:
    settings = re.findall(r'- "?([^"\n]*)"?$', PLAIN, re.MULTILINE)
    pairs = dict(pairwise(settings))
    assert pairs["--appendonly"] == "yes"
    assert pairs["--appendfsync"] == "always"
    assert pairs["--maxmemory-policy"] == "noeviction"
    assert "replicaof" not in PLAIN
