"""The contention kit: processes contend for locks, keep a journal, and a checker reads it.

`rlock demo`, the soak and the contest with Redisson use it. ``worker`` and ``processes``
make the load. ``recorder`` and ``journal`` note each call, ``history`` reads the journals, ``checker`` and
``figures`` judge and measure them, ``order`` judges the fair order. ``counter`` is the resource that the
locks protect.
"""
