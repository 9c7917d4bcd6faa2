"""The parts that all drivers share: connections, rounds, subscriptions, holds; everything but the waiting.

A procedure is a generator that delegates each wait to a method of its driver. There `_sync` blocks the
thread, `_async` suspends the task, and the simulation of the tests lets virtual time pass. So all drivers run
one algorithm, and no copy of it can drift.
"""
