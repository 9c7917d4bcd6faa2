"""The rules: pure functions and state without I/O; time comes in as a parameter."""
