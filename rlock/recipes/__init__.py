"""Uses of the lock: each one is built on `RLock` or on its procedures, and rests on their proof."""
