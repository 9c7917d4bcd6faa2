"""docs/cli.md: its settings file is read."""

from __future__ import annotations

import json
from pathlib import Path

from ..cli.shell import rlock
from .pages import block, lay_out


def test_the_settings_file_of_the_page_is_read(tmp_path: Path) -> None:
    lay_out("cli.md", tmp_path)
    path = tmp_path / "config.toml"
    path.chmod(0o600)
    found = rlock("config", "--json", "--config", str(path))
    told = {row["setting"]: row for row in map(json.loads, found.out.splitlines())}
    assert (found.code, found.err) == (0, "")
    assert told["masters"]["value"][-1] == "rediss://10.0.0.3:6380"
    assert told["masters"]["source"] == str(path)
    assert "secret" not in found.out
    assert "secret" in block("cli.md", "config.toml")
