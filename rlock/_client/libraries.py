"""redis-py and valkey-py, its fork. One of them makes the connections; both have the same names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: The first one that is installed connects to URLs.
_PACKAGES = ("redis", "valkey")


def _installed() -> str:
    for package in _PACKAGES:
        try:
            # Not the package alone: Python also imports a folder that has its name.
            import_module(f"{package}.asyncio")
            return package
        except ModuleNotFoundError as error:
            if error.name not in (package, f"{package}.asyncio"):
                raise  # it is here, and lacks something of its own
    raise ImportError("rlock connects by redis-py or valkey-py, and neither is here: run `pip install redis`")


#: The packages in use: the one for URLs first, then those of ready clients.
_used = [_installed()]
#: The library that connects to URLs.
default: Any = import_module(_used[0])


def library_of(client: object, part: str = "") -> Any:
    """The library of a ready client; else the one that connects to URLs. ``part``: ".asyncio" for tasks."""
    origins = (kind.__module__.partition(".")[0] for kind in type(client).__mro__)
    package = next((origin for origin in origins if origin in _PACKAGES), _used[0])
    if package not in _used:
        _used.append(package)
    return import_module(package + part)


def errors(*names: str) -> tuple[type[Exception], ...]:
    """The errors with these names, of each library in use."""
    modules = [import_module(package) for package in _used]
    return tuple(
        getattr(module, name, None) or getattr(module.exceptions, name)
        for module in modules
        for name in names
    )
