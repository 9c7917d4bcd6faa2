"""Descriptors at a fork and at the end of a process."""

from __future__ import annotations

import os

from rlock._sync.connections import WakePipe


def test_a_closed_wake_pipe_reads_from_no_other_descriptor() -> None:
    pipe = WakePipe()
    number = pipe.fileno
    pipe.close()
    pipe.close()
    near, far = os.pipe()
    os.set_blocking(near, False)
    try:
        if near != number:
            os.dup2(near, number)
        os.write(far, b"x")
        # In a child of a process with greenlets, the copy of a waiter still believes in its pipe.
        pipe.clear()
        assert os.read(near, 1) == b"x"
    finally:
        for descriptor in {near, far, number}:
            os.close(descriptor)
