"""Masters on this machine, for a first look, development and tests."""
