"""The bug bench: defects that this project had, to measure what finds them. ``python -m evidence.bugs``."""

from . import history, readers, rules, waiting
from .registry import BUGS, Bug, Patches, broken, commit

__all__ = ["BUGS", "Bug", "Patches", "broken", "commit", "history", "readers", "rules", "waiting"]
