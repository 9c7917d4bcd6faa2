"""Masters in the memory of one process, and the links to them."""

from .fleet import MemoryMasters
from .server import MemoryMaster

__all__ = ["MemoryMaster", "MemoryMasters"]
