"""The registry of bugs: each is a switch with a name and a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from rlock.rules import scripts


class Patches(ExitStack):
    """Changes of rlock, until the end of a block."""

    def set(self, owner: Any, name: str, value: object) -> None:
        self.enter_context(patch.object(owner, name, value))

    def wrap(self, owner: Any, name: str, changed: Callable[..., Any]) -> None:
        """Change a function or a method; ``changed`` gets the genuine one first."""
        genuine = getattr(owner, name)
        self.set(owner, name, lambda *args, **how: changed(genuine, *args, **how))

    def script(self, script: scripts.Script, old: str, new: str) -> None:
        """Change a script of real masters. Those in memory read no Lua: they are changed beside it."""
        if old not in script.source:
            raise AssertionError(f"{script.name}.lua has changed: {old!r} is not in it any more")
        changed = scripts.Script(script.name, script.source.replace(old, new, 1))
        for field in ("source", "sha"):
            self.enter_context(patch.dict(script.__dict__, {field: getattr(changed, field)}))


Switch = Callable[[Patches], None]


@dataclass(frozen=True)
class Bug:
    """``sentence``: what it was, and who was hurt. ``rule``: of docs/contributing/safety.md."""

    name: str
    rule: str
    sentence: str
    switch: Switch


BUGS: dict[str, Bug] = {}


def bug(name: str, rule: str) -> Callable[[Switch], Switch]:
    """Register a switch; its docstring is the sentence."""

    def register(switch: Switch) -> Switch:
        BUGS[name] = Bug(name, rule, " ".join((switch.__doc__ or "").split()), switch)
        return switch

    return register


def around(*target: Any) -> Callable[[Callable[..., Any]], Switch]:
    """A switch for a function, which gets the genuine one first. ``target``: its owners, and its name."""
    *owners, name = target

    def made(changed: Callable[..., Any]) -> Switch:
        def switch(patches: Patches) -> None:
            for owner in owners:
                patches.wrap(owner, name, changed)

        switch.__doc__ = changed.__doc__
        return switch

    return made


@contextmanager
def broken(name: str) -> Iterator[None]:
    """Have a bug until the end of the block."""
    with Patches() as patches:
        BUGS[name].switch(patches)
        yield


def commit(name: str) -> None:
    """Have a bug for as long as the process lives."""
    BUGS[name].switch(Patches())
