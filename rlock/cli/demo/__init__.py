"""The parts of ``rlock demo``: a file that breaks without a lock, who rewrites it, the proof."""
