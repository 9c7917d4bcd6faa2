"""The Lua scripts of `lua/`."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path


@dataclass(frozen=True)
class Script:
    name: str
    source: str

    @cached_property
    def sha(self) -> str:
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


def folder() -> Traversable:
    """The folder of the scripts: inside the installed package, or at the top of a checkout."""
    installed = resources.files("rlock") / "lua"
    if installed.is_dir():
        return installed
    # An editable install and a plain checkout have no copy in the package.
    return Path(__file__).resolve().parents[2] / "lua"


def _load(name: str) -> Script:
    return Script(name, (folder() / f"{name}.lua").read_text(encoding="utf-8"))


ACQUIRE = _load("acquire")
RENEW = _load("renew")
RELEASE = _load("release")
STATUS = _load("status")
WAIT = _load("wait")
HEAL = Script("heal", RENEW.source)  # the same, with more words for each lock
FENCE = _load("fence")
CONFIRM = _load("confirm")
READERS = _load("readers")
TRANSFER = _load("transfer")
HANDSHAKE = _load("handshake")

ALL = (ACQUIRE, RENEW, RELEASE, STATUS, WAIT, FENCE, HANDSHAKE, CONFIRM, TRANSFER, READERS)
#: No files: the commands that wait for the acknowledgements of replicas, and that ask for the replicas.
MARK, ACKNOWLEDGE, REPLICATION = Script("PUBLISH", ""), Script("WAIT", ""), Script("INFO replication", "")
OF_GROUPS = (MARK, ACKNOWLEDGE, REPLICATION)
#: In a group, votes on these count only when all replicas have the write; see `Command` for the rest.
ACKNOWLEDGED = (ACQUIRE, RENEW, HEAL, FENCE, TRANSFER, READERS)
#: A YES to one of these makes a holder or a token, so the master must have its whole memory.
GRANTING = (ACQUIRE, FENCE, TRANSFER)
#: Late, behind its undo, one of these would write a lease that nobody gives back.
LEASING = (ACQUIRE, TRANSFER)
