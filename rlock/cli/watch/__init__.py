"""The live screen of `rlock watch`: the tables, and the loop that shows them."""
