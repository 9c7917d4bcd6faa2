"""Metrics and traces: `rlock.telemetry.prometheus`, `rlock.telemetry.opentelemetry`.

Each is an observer of rlock/events.py and needs a package of its own; nothing here is imported by the
lock, and nothing runs before ``enable()`` was called.
"""
