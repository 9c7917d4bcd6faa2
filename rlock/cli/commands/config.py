"""`rlock config`: the settings in force, and where each of them comes from."""

from __future__ import annotations

import click

from ..output import json_option, print_json, show
from ..settings import Settings, settings_options


@click.command()
@json_option
@settings_options
def config(*, as_json: bool, settings: Settings) -> None:
    """Show the settings in force and where each comes from; passwords are left out. Asks no master.

    Flags go before the environment, the environment before the settings file.

    \b
    A settings file is TOML:
      masters = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]
      ttl = 10

    Exit status: 0 they can be used; 64 they cannot be used together; 78 a settings file that is wrong.
    """
    found = list(settings.in_force())
    path = settings.file
    if as_json:
        settled = {each.setting: {"value": each.value, "source": each.source} for each in found}
        print_json({"file": None if path is None else str(path), "settings": settled})
        return
    show(f"settings file: {'none' if path is None else path}")
    width = max(len(setting.setting) for setting in found)
    for setting in found:
        value = setting.value
        values = value if isinstance(value, list) else [value if isinstance(value, str) else f"{value:g} s"]
        for place, word in enumerate(values):
            name = setting.setting if place == 0 else ""
            source = f"  ({setting.source})" if place == 0 else ""
            show(f"{name:<{width}}  {word}{source}")
