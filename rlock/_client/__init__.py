"""What every driver is made of: connections, rounds, subscriptions, holds. All but the waiting.

What has to wait is a program (`waits`): a generator that delegates to a method of its driver where it waits.
`_sync` blocks the thread there, `_async` suspends the task, the simulation of the tests lets virtual time
pass. So there is one algorithm, and no twin that could drift.
"""
