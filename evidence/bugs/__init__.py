"""The bug bench: defects that this project had, to measure what finds them. ``python -m evidence.bugs``."""

from . import hands, history, readers, rules, waiting
from .registry import BUGS, Bug, broken, commit, rewrite

__all__ = ["BUGS", "Bug", "broken", "commit", "hands", "history", "readers", "rewrite", "rules", "waiting"]
