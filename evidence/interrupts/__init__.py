"""Every public operation, interrupted at each instant at which CPython handles a signal, and entered again
by the garbage collector at each allocation.

``python -m evidence.interrupts`` prints how many instants each operation has, and what failed.
"""
