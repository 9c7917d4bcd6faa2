"""How tests call `rlock doctor`, and read what it found."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner

from rlock.cli.main import cli

from ..fixtures import FreshMasters
from ..servers import PASSWORD, Fleet

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def good(fresh_masters: FreshMasters) -> Fleet:
    """Three masters as the documentation wants them."""
    return fresh_masters(3, args=(*DURABLE, "--masterauth", PASSWORD))  # one may become a replica


@dataclass(frozen=True)
class Seen:
    code: int
    masters: list[dict[str, Any]]
    findings: list[dict[str, Any]]

    def of(self, check: str) -> list[dict[str, Any]]:
        return [finding for finding in self.findings if finding["check"] == check]

    def one(self, check: str) -> dict[str, Any]:
        found = self.of(check)
        assert len(found) == 1, f"{check}: {found or [finding['what'] for finding in self.findings]}"
        return found[0]

    def bad(self) -> list[tuple[str, str, str | None]]:
        """Errors and warnings: severity, check, master."""
        return [(f["severity"], f["check"], f["master"]) for f in self.findings if f["severity"] != "note"]


def doctor(urls: Sequence[str], *words: str, measure: float = 0, **settings: str) -> Seen:
    """``rlock doctor --json`` in this process."""
    environment = {f"RLOCK_{key.upper()}": value for key, value in settings.items()}
    # Long, so that a busy machine is not taken for slow masters.
    usual = {"RLOCK_CONFIG": "", "RLOCK_MASTERS": ",".join(urls), "RLOCK_REQUEST_TIMEOUT": "1"}
    environment = usual | environment
    clean = {key: None for key in os.environ if key.startswith("RLOCK_")}
    result = CliRunner().invoke(
        cli, ["doctor", "--json", "--measure", str(measure), *words], env={**clean, **environment},
        standalone_mode=False,
    )  # fmt: skip
    if result.exception is not None:
        raise result.exception
    told = json.loads(result.stdout)
    assert all(finding["what"] and finding["why"] and finding["action"] for finding in told["findings"])
    return Seen(result.return_value, told["masters"], told["findings"])
