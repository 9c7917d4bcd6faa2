"""Uses of the lock: each one is built on `RLock`, and rests on its proof."""
