"""Recipes: what people build on a lock. Each one rests on `RLock` and its proof, and adds no rule."""

from .leader import AsyncLeader, Leader

__all__ = ["AsyncLeader", "Leader"]
