"""For tests of code that locks: clients without a server, and losses on demand.

What the in-memory masters do not show: a network, a restart, another process. They are dictionaries in this
process; the client on them is the real one. ``rlock.testing.plugin`` has fixtures for pytest, on real masters
too. docs/howto/testing.md says which to take when.
"""

from .clients import lose, memory_client, use
from .memory import MemoryMaster, MemoryMasters

__all__ = ["MemoryMaster", "MemoryMasters", "lose", "memory_client", "use"]
