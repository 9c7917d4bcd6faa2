"""Masters in the memory of one process, and the connections to them."""

from .fleet import MemoryMasters
from .server import MemoryMaster

__all__ = ["MemoryMaster", "MemoryMasters"]
