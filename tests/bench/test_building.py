"""Steps of builds: what is told of one that failed."""

from __future__ import annotations

import sys

import pytest

from bench.harness.building import Broken, reason, run
from bench.harness.contestant import Failed


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            "floor.c:12:10: fatal error: hiredis.h: No such file\n   12 | #include\ncompilation terminated.",
            "floor.c:12:10: fatal error: hiredis.h: No such file",
        ),
        ("Looking\nERROR: No distribution for x==9\nbye", "ERROR: No distribution for x==9"),
        ("npm error code E404\nnpm error 404 Not Found - x\nnpm error A complete log", "404 Not Found - x"),
        ("\x1b[1m[ERROR] COMPILATION ERROR :\x1b[m\n[ERROR] /M.java:[3,1] no ';'", "/M.java:[3,1] no ';'"),
        ("# contestant\n./main.go:5:2: undefined: x", "./main.go:5:2: undefined: x"),
        ("\n  \n", "it said nothing"),
    ],
)  # fmt: skip
def test_the_line_that_tells_why(said: str, line: str) -> None:
    assert reason(said) == line


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_a_step_says_what_its_program_said() -> None:
    assert run(program("import sys; print('a'); print('b', file=sys.stderr)")).split() == ["a", "b"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (program("import sys; sys.exit('no such package')"), r"^python\S* failed: no such package$"),
        (program("import time; time.sleep(60)"), r"^python\S* was not done after 0\.5 s$"),
        (["/none/gcc", "-O2"], r"^gcc is not installed$"),
        (["/etc/passwd"], r"^passwd: .*[Pp]ermission"),
    ],
)
def test_a_step_that_fails_says_why(command: list[str], told: str) -> None:
    with pytest.raises(Failed, match=told):
        run(command, 0.5)


def test_sources_of_ours_that_are_wrong_are_no_toolchain_that_is_missing() -> None:
    with pytest.raises(Broken, match="undefined: x"):
        run(program("import sys; sys.exit('# contestant\\n./main.go:5:2: undefined: x')"))
