"""A sample of the instants. `python -m evidence.interrupts` goes through all."""

from __future__ import annotations

import shlex
import sys

import pytest

from tests.cli.shell import done
from tests.docs.pages import TOP


@pytest.mark.parametrize(
    "words",
    [
        "--masters 1 --every 40",
        "--masters 3 --only close --every 12",
        "--masters 1 --again --work releases --every 60",
        "--masters 1 --again --work acquires --only acquire --every 20",
        "--masters 3 --again --work 'closes it' --only detach --every 12",
        "--masters 1 --again --work raises --only with --only 'contended acquire' --every 12",
        "--masters 1 --collect --work releases --only acquire --every 6",
        "--masters 1 --again --work 'releases it' --work 'acquires it' --only acquire --only with --every 12",
        "--masters 1 --again --work 'releases it' --work 'acquires it' --only 'acquire a reader' "
        "--only 'end of its writer' --every 50",
        "--masters 1 --asyncio --every 4",
        "--masters 3 --asyncio --only 'split votes' --only leader --every 20",
    ],
)
def test_a_sample_of_the_instants_leaves_a_client_that_works(words: str) -> None:
    command = [sys.executable, "-m", "evidence.interrupts", *shlex.split(words)]
    found = done(command, cwd=TOP, timeout=120)
    assert found.code == 0, found.out + found.err
