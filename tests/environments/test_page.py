"""docs/environments.md says what the code says; its longer programs run in the tests of their packages."""

from __future__ import annotations

from pathlib import Path

from rlock._sync.greenlets import EVENTLET, OTHER_NATIVE_THREAD, PATCHED_IN_PART, PATCHED_TOO_LATE

from ..docs.pages import marked
from ..servers import Fleet
from .programs import PAGE, assert_nothing_is_left, blocks, needs, program

FOLDER = Path(__file__).resolve().parent


def test_the_errors_of_the_page_are_those_of_the_code() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    for error in (EVENTLET, OTHER_NATIVE_THREAD, PATCHED_IN_PART, PATCHED_TOO_LATE):
        assert error in text


def test_every_program_of_the_page_is_run_by_a_test() -> None:
    named = marked(PAGE, "tests/environments/test_page.py")
    programs = blocks()
    assert len(named) == len(programs) == 4
    tests = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("test_*.py"))
    for name, code in programs.items():
        compile(code, name, "exec")
        assert f'blocks()["{name}"]' in tests, f"no test runs {name}"


@needs("gevent")
def test_the_greenlets_of_the_page_take_turns(masters3: Fleet, tmp_path: Path) -> None:
    (tmp_path / "crawl.py").write_text(blocks()["crawl.py"])
    with program("", masters3.urls, cwd=tmp_path, command=["crawl.py"]) as started:
        assert started.line() == "True"
        assert started.end() == 0
    assert_nothing_is_left(masters3)
