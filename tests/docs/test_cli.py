"""docs/cli.md: its tables are the code's, its files are read."""

from __future__ import annotations

import json
from pathlib import Path

from ..cli.shell import rlock
from .cli_page import PAGE, renewed
from .pages import block, lay_out


def test_every_command_option_setting_and_exit_code_stands_on_the_page_as_the_code_has_it() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == renewed(page), "renew it: python -m tests.docs.cli_page"


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
