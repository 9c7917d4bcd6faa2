"""The live screen of `rlock watch`: keys, terminal, picture."""
