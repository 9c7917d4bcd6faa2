"""The fixtures of the tests and of the evidence."""

pytest_plugins = ["tests.canary", "tests.fixtures"]
