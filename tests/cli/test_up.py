"""`rlock up`: masters that live as long as it does."""

from __future__ import annotations

import signal

import pytest

import rlock

from .shell import begin


def test_up_prints_the_line_to_export_and_ends_its_masters() -> None:
    process = begin("up", "-n", "3")
    try:
        assert process.stdout is not None
        name, _, urls = process.stdout.readline().strip().partition("=")
        assert name == "RLOCK_MASTERS"
        with rlock.Client.from_env({name: urls}) as client:
            assert len(client.masters) == 3
            with client.lock("hello"):
                assert client.status("hello").locked
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "Traceback" not in err
        with rlock.Client(urls.split(",")) as client, pytest.raises(rlock.QuorumUnreachableError):
            client.lock("hello").acquire(blocking=False)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
